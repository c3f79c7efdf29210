"""`osrl study`: the experiment itself from the shell. Every command takes --json."""

from __future__ import annotations

import gc
import shlex
from typing import TYPE_CHECKING, Annotated, Any

import typer

from osrl.cli.open_study import create_study, opened, without_password
from osrl.cli.options import (
    By,
    CorrectionReason,
    Delta,
    DeltaG,
    DeltaH,
    Epsilon,
    EpsilonG,
    EpsilonH,
    FromFile,
    Json,
    Key,
    Name,
    NameList,
    NewName,
    NoiseSd,
    Place,
    Reason,
    RightReward,
    TrialArgument,
    key_value,
)
from osrl.cli.output import echo, print_json, print_report, print_result
from osrl.cli.table_input import read_reward, read_rows
from osrl.errors import OsrlError

if TYPE_CHECKING:
    from osrl.cli.open_study import AnyStudy
    from osrl.report.study import StudyReport
    from osrl.study.state.trial import Trial

app = typer.Typer(
    help="Run a live experiment: ask for trials, tell their rewards, until there is a verdict.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.command()
def create(
    context: typer.Context,
    place: Place,
    tasks: NameList = None,
    representations: NameList = None,
    predictors: NameList = None,
    instance: Annotated[
        str | None, typer.Option(metavar="FILE", help="Take names and family from an instance file.")
    ] = None,
    family: Annotated[str | None, typer.Option(help="bernoulli, bounded or gaussian.  [default: bernoulli]")] = None,
    noise_sd: NoiseSd = None,
    low: Annotated[float | None, typer.Option(help="Smallest possible bounded reward.  [default: 0]")] = None,
    high: Annotated[float | None, typer.Option(help="Largest possible bounded reward.  [default: 1]")] = None,
    harm_limit: Annotated[
        float | None, typer.Option(help="The largest mean harm: what does more is withdrawn.")
    ] = None,
    delta: Delta = None,
    delta_g: DeltaG = None,
    delta_h: DeltaH = None,
    epsilon: Epsilon = None,
    epsilon_g: EpsilonG = None,
    epsilon_h: EpsilonH = None,
    model_check: Annotated[
        float | None,
        typer.Option(metavar="M", help="Decide only with evidence in every task that no arm beats the answer by M."),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(help="Repeats the same draws; whoever knows it can foresee them.  [default: secret draws]"),
    ] = None,
    budget: Annotated[int | None, typer.Option(help="The largest number of trials.")] = None,
    policy: Annotated[str, typer.Option(help="The policy that chooses the trials.")] = "osrl",
    threshold: Annotated[str | None, typer.Option(help="For policies that offer several.")] = None,
    option: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="An option of the policy; may be repeated.")
    ] = None,
    name: NewName = "study",
    as_json: Json = False,
) -> None:
    """Begin a study."""
    from osrl.study.settings import CreateOptions

    options: Any = {key: value for key, value in context.params.items() if key in CreateOptions.__annotations__}
    axes = {"tasks": tasks, "representations": representations, "predictors": predictors}
    names = {key: _read_names(values) for key, values in axes.items() if values}
    if instance is not None:
        from osrl.model.instance import Instance

        loaded = Instance.load(instance)
        for key, given in names.items():
            if len(given) != len(getattr(loaded, key)):
                count = len(getattr(loaded, key))
                raise OsrlError(f"{len(given)} {key}, and {count} in the file; name all, or leave them out")
        names = {key: list(getattr(loaded, key)) for key in axes} | names
        if family is None:
            options |= {"family": loaded.family.name, "noise_sd": loaded.family.noise_sd}
    for key in axes:
        if key not in names:
            raise OsrlError(f"the {key} are missing; give --{key} NAME,... or --instance FILE")
    options |= {"family": options["family"] or "bernoulli", "options": dict(map(key_value, option or []))}
    with create_study(place, name, **options | names) as study:
        if as_json:
            print_json(_report(study).document())
            return
        which = "" if name == "study" else f" --name {shlex.quote(name)}"
        first = f"osrl study ask {shlex.quote(without_password(place))}{which}"
        echo(f"study {name!r} is ready; ask for its first trial with: {first}")
        from osrl.report.sentences import remarks

        for remark in remarks(study.settings):
            echo(f"note: {remark}")


@app.command()
def ask(
    place: Place,
    task: Annotated[str | None, typer.Option(help="The task that has arrived.")] = None,
    n: Annotated[int | None, typer.Option("-n", "--n", help="Hand out this many trials at once.")] = None,
    key: Annotated[
        str | None,
        typer.Option(metavar="KEY", help="Your name for the trial; asking again gives the same trial."),
    ] = None,
    note: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="Something to remember about the trial; may be repeated."),
    ] = None,
    lease: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="How long a trial may take (30m, 1h, 2d) before it is overdue."),
    ] = None,
    name: Name = None,
    as_json: Json = False,
) -> None:
    """Get the next trial to run."""
    about = dict(map(key_value, note or [])) or None
    with opened(place, name) as study:
        if n is None:
            found: tuple[Trial, ...] = (study.ask(task, key=key, note=about, lease=lease),)
        elif key is None:
            found = study.ask(task, n=n, note=about, lease=lease)
        else:
            raise OsrlError("a key is that of one trial; ask without -n, once for each key")
    documents = [_trial_document(trial) for trial in found]
    lines = [
        f"trial {each.id}{f' ({each.key})' if each.key else ''}: {each.representation}, {each.predictor} in {each.task}"
        for each in found
    ]
    print_result(as_json, documents[0] if n is None else {"trials": documents}, *lines)


@app.command(context_settings={"ignore_unknown_options": True})  # a reward may be negative
def tell(
    place: Place,
    what: Annotated[
        list[str] | None,
        typer.Argument(metavar="[TRIAL] REWARD", help="The trial, by its number or token, and its reward."),
    ] = None,
    key: Key = None,
    file: FromFile = None,
    harm: Annotated[float | None, typer.Option(help="Its harm, from 0 to 1, where that has a limit.")] = None,
    by: By = None,
    name: Name = None,
    as_json: Json = False,
) -> None:
    """Report the reward of a trial, or of many with --from. It is on disk when the command returns."""
    given = list(what or [])
    usage = "give TRIAL REWARD, --key KEY REWARD, or --from FILE"
    if len(given) != (0 if file else 1 if key else 2) or (file and key):
        raise OsrlError(f"{' '.join(given)!r} does not say which trial and which reward; {usage}")
    if file is not None:
        return _end_many(place, name, file, as_json, by=by)
    value = read_reward(given[-1])
    with opened(place, name) as study:
        before = study.head
        if key is None:
            study.tell(trial := _read_trial(given[0]), value, harm=harm, by=by)  # type: ignore[arg-type]
        else:
            study.tell(key=key, reward=value, harm=harm, by=by)  # type: ignore[arg-type]
            trial = study.trial(key).id
        verdict, head = study.verdict, study.head
    reward = float(value)
    told = f"reward {reward:g}" + ("" if harm is None else f" and harm {harm:g}")
    done = f"{told} {'is' if harm is None else 'are'} stored"
    if head == before:
        done = f"{told} was told before; nothing has changed"
    document = {"trial": trial, "reward": reward, "verdict": verdict, "head": head}
    print_result(as_json, document, f"trial {trial}: {done}; verdict: {verdict}", f"head of the log: {head}")
    return None


@app.command(context_settings={"ignore_unknown_options": True})
def correct(
    place: Place,
    trial: TrialArgument,
    reward: RightReward,
    reason: CorrectionReason,
    by: By = None,
    name: Name = None,
    as_json: Json = False,
) -> None:
    """Correct a wrong reward, as long as nothing has been decided by it. The log keeps both."""
    with opened(place, name) as study:
        right = read_reward(reward)
        study.correct(number := _read_trial(trial), right, reason=reason, by=by)  # type: ignore[arg-type]
        verdict, head = study.verdict, study.head
    done = f"trial {number}: the reward is corrected to {float(right):g}; verdict: {verdict}"
    document = {"trial": number, "reward": float(right), "verdict": verdict, "head": head}
    print_result(as_json, document, done, f"head of the log: {head}")


@app.command(context_settings={"ignore_unknown_options": True})
def amend(
    place: Place,
    trial: TrialArgument,
    reward: RightReward,
    reason: CorrectionReason,
    by: By = None,
    name: Name = None,
    as_json: Json = False,
) -> None:
    """Note the right reward where it is too late to correct it. The evidence stays as it is."""
    with opened(place, name) as study:
        right = read_reward(reward)
        study.amend(number := _read_trial(trial), right, reason=reason, by=by)  # type: ignore[arg-type]
        used, verdict, head = study.trial(number).reward, study.verdict, study.head
    done = (
        f"trial {number}: that the reward is {float(right):g} is noted; evidence, means and verdict "
        f"go on with {used:g}, which was used; verdict: {verdict}"
    )
    document = {"trial": number, "reward": float(right), "used": used, "verdict": verdict, "head": head}
    print_result(as_json, document, done, f"head of the log: {head}")


@app.command()
def abandon(
    place: Place,
    trial: Annotated[str | None, typer.Argument(metavar="TRIAL", help="The number of the trial, or its token.")] = None,
    key: Key = None,
    file: FromFile = None,
    ignorable: Annotated[
        bool,
        typer.Option(
            "--ignorable",
            help="Leave it out: its loss depends neither on the reward nor on the arm, given the task. "
            "Without this option it counts at its worst reward, which is valid whatever the reason.",
        ),
    ] = False,
    by: By = None,
    reason: Reason = None,
    name: Name = None,
    as_json: Json = False,
) -> None:
    """Declare that a trial, or many with --from, will never report."""
    if sum(each is not None for each in (trial, key, file)) != 1:
        raise OsrlError("say which trial is meant; give TRIAL, --key KEY, or --from FILE")
    about: dict[str, Any] = {"ignorable": ignorable, "by": by, "reason": reason}
    if file is not None:
        return _end_many(place, name, file, as_json, **about)
    with opened(place, name) as study:
        if key is None:
            study.abandon(number := _read_trial(str(trial)), **about)
        else:
            study.abandon(key=key, **about)
            number = study.trial(key).id
        verdict = study.verdict
    document = {"trial": number, "ignorable": ignorable, "verdict": verdict}
    print_result(as_json, document, f"trial {number} is abandoned; verdict: {verdict}")
    return None


def _end_many(place: str, name: str | None, file: str, as_json: bool, **about: Any) -> None:
    """Tell or abandon the trials of a file, all of them or none."""
    lost = "ignorable" in about
    rows = read_rows(file, () if lost else ("reward",))
    with opened(place, name) as study:
        try:
            new = (study.abandon_many if lost else study.tell_many)(rows, **about)
        except OsrlError as error:
            raise type(error)(f"{file}, {error}; nothing of the file was stored") from None
        verdict, head = study.verdict, study.head
    what = "trials are abandoned" if lost else "rewards are stored"
    known = f" ({len(rows) - new:,} were known)" if new < len(rows) else ""
    document = {"file": file, "rows": len(rows), "new": new, "verdict": verdict, "head": head}
    print_result(as_json, document, f"{new:,} {what}{known}; verdict: {verdict}", f"head of the log: {head}")


@app.command()
def status(
    place: Place,
    name: Name = None,
    after: Annotated[int, typer.Option(help="List the pending trials after this one.")] = 0,
    limit: Annotated[int, typer.Option(help="How many pending trials --json lists, at most 1000.")] = 100,
    as_json: Json = False,
) -> None:
    """Show what is decided, what is open, how far along it is, and which trials have not reported."""
    with opened(place, name) as study:
        report = _report(study)
        if (after, limit) != (0, 100):
            page = study.pending_trials(after, limit)
            more = len(page) == limit and study.pending_trials(page[-1].id, 1)
            status = report.status._replace(pending=page, pending_next=page[-1].id if more else None)
            report = report._replace(status=status)
    print_report(report, as_json)


@app.command()
def watch(
    place: Place,
    name: Name = None,
    every: Annotated[float, typer.Option(help="Seconds between two updates.")] = 1.0,
    as_json: Json = False,
) -> None:
    """Show the status, live, until there is a verdict; with --json, wait for the verdict.

    If the output is not a terminal, print one line for each change, and the whole status at the end.
    """
    import sys
    import time

    from rich.console import Console
    from rich.live import Live

    if not 0 < every < 1e6:
        raise OsrlError(f"--every is {every:g}; give a number of seconds, such as 1")
    with opened(place, name) as study:
        report = _report(study)
        gc.enable()
        if as_json or not sys.stdout.isatty():
            seen = None
            while report.status.verdict == "running":
                trials = (report.status.handed_out, report.status.told, report.status.abandoned)
                if trials != seen and not as_json:  # a line for each change: others read it as it comes
                    echo("{:,} handed out, {:,} told, {:,} abandoned: running".format(*trials))
                    sys.stdout.flush()
                    seen = trials
                time.sleep(max(every, 0.05))
                report = _report(study)
        else:
            with Live(report, console=Console(highlight=False, markup=False, emoji=False), auto_refresh=False) as live:
                while report.status.verdict == "running":
                    time.sleep(max(every, 0.05))
                    report = _report(study)
                    live.update(report, refresh=True)
            return
    print_report(report, as_json)


def _report(study: AnyStudy) -> StudyReport:
    from osrl.report.study import StudyReport

    return StudyReport(study.place, study.name, study.status)


def _trial_document(trial: Trial) -> dict[str, Any]:
    fields = dict(vars(trial))
    return {"trial": fields.pop("id"), **fields}


def _read_trial(trial: str) -> str | int:
    """Read the number of a trial, or its token."""
    try:
        return int(trial)
    except ValueError:
        return trial


def _read_names(values: list[str]) -> list[str]:
    """Read names: one value is a list with commas; several are one name each."""
    return [part.strip() for part in values[0].split(",")] if len(values) == 1 else values
