"""Instance files: exact round trips in both formats, whole writes, and every way to be malformed."""

import json
import os
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given

from osrl.errors import OsrlError
from osrl.model.instance import Instance
from tests.support.instances import PAPER, instances, refused, table

FORMATS = (".toml", ".json")


def test_the_papers_instance_ships_with_the_package() -> None:
    assert Instance.load("paper") == Instance.load(Path("paper")) == Instance.bernoulli(PAPER)


@given(instances())
def test_a_table_gives_the_instance_back(instance: Instance) -> None:
    assert Instance.from_dict(instance.to_dict()) == instance
    assert Instance.from_dict(json.loads(json.dumps(instance.to_dict()))) == instance


@pytest.mark.parametrize("suffix", FORMATS)
@given(instance=instances())
@example(instance=Instance.gaussian([[[5e-324, 1.7976931348623157e308, 1e22, 0.1 + 0.2]]], 1 / 3))
@example(instance=Instance.bernoulli(PAPER, tasks=['quo"te', "back\\slash"], predictors=["ünï", "😀"]))
def test_a_file_gives_the_instance_back(
    tmp_path_factory: pytest.TempPathFactory, suffix: str, instance: Instance
) -> None:
    path = tmp_path_factory.getbasetemp() / f"round-trip{suffix}"
    instance.save(path)
    again = Instance.load(path)
    assert again == instance
    assert again.means.tobytes() == instance.means.tobytes()
    assert again.family.noise_sd == instance.family.noise_sd


def test_both_formats_have_the_same_keys(tmp_path: Path) -> None:
    instance = Instance.gaussian(PAPER, 0.5)
    instance.save(tmp_path / "a.toml")
    instance.save(str(tmp_path / "a.JSON"))
    from_toml = tomllib.loads((tmp_path / "a.toml").read_text())
    assert from_toml == json.loads((tmp_path / "a.JSON").read_text()) == instance.to_dict()
    assert list(from_toml) == ["family", "noise_sd", "tasks", "representations", "predictors", "means"]


@pytest.mark.parametrize("suffix", FORMATS)
def test_files_are_readable(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"paper{suffix}"
    Instance.bernoulli(PAPER, tasks=["année", "x2"]).save(path)
    text = path.read_text(encoding="utf-8")
    assert "\n  [[0.5, 0.45], [0.35, 0.33], [0.1, 0.05]],\n" in text
    assert "année" in text


def test_a_byte_order_mark_is_no_obstacle(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(json.dumps(table()), encoding="utf-8-sig")
    assert Instance.load(path) == Instance.from_dict(table())


def test_a_failed_save_leaves_the_old_file_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.toml"
    Instance.load("paper").save(path)
    before = path.read_bytes()

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with refused("a.toml: cannot be written: No space left on device"):
        Instance.bernoulli([[[0.5]]]).save(path)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["a.toml"]


def test_saving_replaces_the_whole_file_and_leaves_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "a.toml"
    paper, small = Instance.load("paper"), Instance.bernoulli([[[0.5]]])
    paper.save(path)
    with path.open("rb") as earlier_reader:
        small.save(path)
        assert Instance.from_dict(tomllib.load(earlier_reader)) == paper
    assert Instance.load(path) == small
    assert os.listdir(tmp_path) == ["a.toml"]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (
            table(mean=1),
            "unknown key 'mean'; the keys are family, noise_sd, tasks, representations, predictors",
        ),
        (table(means=None), "the key 'means' is missing; means needs one block for each task"),
        (table(family=None), "the key 'family' is missing; set it to one of bernoulli, gaussian, bounded"),
        (table(family="poisson"), "unknown family 'poisson'; use one of bernoulli, gaussian, bounded"),
        (table(family=["bernoulli"]), "unknown family ['bernoulli']; use one of"),
        (table(noise_sd=1.0), "noise_sd belongs to the gaussian family; remove it"),
        (table(family="gaussian", noise_sd=0), "noise_sd is 0.0; give a positive number"),
        ([[[0.5]]], "an instance is one table of keys and values, not [[[0.5]]]; the keys are family"),
    ],
)
def test_bad_tables_are_refused(tmp_path: Path, data: Any, message: str) -> None:
    with refused(message):
        Instance.from_dict(data)
    path = tmp_path / "bad.json"
    path.write_text(json.dumps(data))
    with refused(f"{path}: {message}"):
        Instance.load(path)


def test_a_gaussian_table_needs_its_noise() -> None:
    with pytest.raises(OsrlError, match="the gaussian family needs noise_sd"):
        Instance.from_dict(table(family="gaussian"))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.toml", b'family = "bernoulli', "not valid TOML: "),
        ("a.toml", b"means = [[[0.5, 0.4]", "not valid TOML: "),
        ("a.toml", b'family = "bernoulli"\nfamily = "bounded"\n', "not valid TOML: Cannot overwrite a value"),
        ("a.toml", b"", "the key 'family' is missing"),
        ("a.json", b"", "not valid JSON: Expecting value: line 1 column 1"),
        ("a.json", b'{"family": "bernoulli", "means": [[[0.5,', "not valid JSON: Expecting value: line 1"),
        (
            "a.json",
            b'{"family": "bernoulli", "family": "bounded"}',
            "not valid JSON: the key 'family' is repeated",
        ),
        ("a.json", b"[" * 100_000, "not valid JSON: "),
        (
            "a.json",
            b'{"family": "bernoulli", "means": [[[NaN]]]}',
            "means[x1][g1][h1] is nan; give numbers in",
        ),
        ("a.json", b'{"family": "bernoulli", "means": [[[' + b"9" * 5000 + b"]]]}", "not valid JSON: "),
        ("a.json", b"\xff\xfe", "not valid JSON: 'utf-8' codec can't decode byte 0xff"),
        ("a.toml", b'family = "\xff"', "not valid TOML: 'utf-8' codec can't decode byte 0xff"),
        ("a.yaml", b"family: bernoulli", "unknown suffix '.yaml'; an instance file ends in .toml or .json"),
        ("papers", b"", "unknown suffix ''; an instance file ends in .toml or .json (only 'paper' has none)"),
    ],
)
def test_bad_files_are_refused(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with refused(f"{path}: {message}"):
        Instance.load(path)


@pytest.mark.parametrize("suffix", FORMATS)
def test_no_truncated_file_is_accepted_as_another_instance(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"paper{suffix}"
    Instance.load("paper").save(path)
    whole = path.read_bytes().rstrip()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with refused(str(path)):
            Instance.load(path)


def test_missing_files_and_folders_are_refused(tmp_path: Path) -> None:
    with refused(f"{tmp_path / 'none.toml'}: no such file; give 'paper' or the path of an instance file"):
        Instance.load(tmp_path / "none.toml")
    (tmp_path / "folder.toml").mkdir()
    with refused("folder.toml: cannot be read: it is a folder or a device, not a file"):
        Instance.load(tmp_path / "folder.toml")
    with refused("a.toml: cannot be written: No such file or directory"):
        Instance.load("paper").save(tmp_path / "none" / "a.toml")
    with refused("a.yaml: unknown suffix '.yaml'"):
        Instance.load("paper").save(tmp_path / "a.yaml")
    assert os.listdir(tmp_path) == ["folder.toml"]
