"""A record of answers, as an evaluation of language models leaves it: model, prompt, question, right or not.

    python examples/llm_answers.py [answers.csv]

**These are no scores of real models.** Every answer is drawn by this program, from a fixed seed: a question
has a difficulty, a model an ability, and a prompt helps or hurts on a benchmark. The model `heron` is the
best on every benchmark with its best prompt, and the best prompt differs: step by step for arithmetic, code
and logic, a plain question for facts. On `logic` two prompts are almost equally good, as it happens in life.
"""

from __future__ import annotations

import math
import random
import sys
from collections.abc import Iterator
from pathlib import Path

import polars as pl

QUESTIONS = 400  # of each benchmark
ABILITY = {"heron": 0.9, "ibis": 0.2, "plover": 0.0, "wren": -0.6}
HELPS = {  # plain, with examples, step by step
    "arithmetic": (-0.8, -0.3, 0.5),
    "code": (-0.4, 0.0, 0.6),
    "facts": (0.7, 0.1, -0.2),
    "logic": (-0.6, 0.42, 0.45),
}
PROMPTS = ("plain", "with examples", "step by step")


def answers() -> Iterator[dict[str, object]]:
    """Every question, asked of every model with every prompt."""
    rng = random.Random(175)
    for benchmark, helps in HELPS.items():
        difficulty = [rng.gauss(0, 0.8) for _ in range(QUESTIONS)]
        for model, ability in ABILITY.items():
            for prompt, help in zip(PROMPTS, helps, strict=True):
                for question, hard in enumerate(difficulty):
                    chance = 1 / (1 + math.exp(hard - ability - help))
                    yield {
                        "task": benchmark,
                        "representation": model,
                        "predictor": prompt,
                        "question": question,
                        "reward": int(rng.random() < chance),
                    }


if __name__ == "__main__":
    file = Path(sys.argv[1]) if len(sys.argv) > 1 else Path("answers.csv")
    pl.DataFrame(list(answers())).write_csv(file)
    print(f"{file} has {len(HELPS) * len(ABILITY) * len(PROMPTS) * QUESTIONS:,} simulated answers")
