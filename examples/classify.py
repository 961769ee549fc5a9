"""Few-shot classification with select: every label is scored over one shared prompt, nothing is sampled.

python examples/classify.py
"""

import radixrt as rx

LABELS = [" sport", " weather", " cooking", " money"]
SHOTS = """Topic of each headline.

Headline: Late goal wins the cup final
Topic: sport
Headline: Heavy rain expected along the coast
Topic: weather
Headline: Ten soups for cold evenings
Topic: cooking
Headline: Bank lowers interest rates again
Topic: money
"""
HEADLINES = [
    "Storm leaves thousands without power",
    "Striker signs for another season",
    "How to bake bread without an oven",
    "Shares fall after the budget",
    "Snow closes mountain roads",
    "A stew that gets better overnight",
]


@rx.program
def classify(s, headline: str):
    s += SHOTS
    s += f"Headline: {headline}\nTopic:"
    s += rx.select("topic", LABELS)
    return s["topic"].strip()


def main(engine: rx.Engine) -> None:
    runs = classify.map([{"headline": headline} for headline in HEADLINES], engine=engine)
    for headline, run in zip(HEADLINES, runs, strict=True):
        print(f"{run.value:8} {headline}")
    cached = sum(run.usage.cached_tokens for run in runs)
    print(f"{cached} of {sum(run.usage.prompt_tokens for run in runs)} prompt tokens came from the cache")


if __name__ == "__main__":
    with rx.Engine("smollm2-135m") as engine:
        main(engine)
