"""Averages the weights of several checkpoints of a run, measures the mean's perplexity, and stores it as a model.

    python benchmarks/average.py run/model model-1.safetensors model-2.safetensors ... --heldout wiki.valid.txt.xz
    python benchmarks/average.py run/model model-*.safetensors --heldout wiki.valid.txt.xz --output mean/

The files are `model.safetensors` of checkpoints (`run/checkpoints/step-N/`; a run keeps its last two, so copy them
meanwhile). At a high learning rate, the weights wander about a better point, which their mean finds (Izmailov et al.
2018, "Averaging Weights Leads to Wider Optima and Better Generalization"). The model's card has the perplexity of the
mean and the names of its checkpoints; `elmo convert --store float16` makes the model smaller.
"""

import argparse
from dataclasses import replace
from pathlib import Path

from safetensors.torch import load_file
from torch import Tensor

from elmo.formats import native
from elmo.pretraining.perplexity import perplexity_report
from elmo.text.tokenizer import TextConfig


def mean_of(files: list[Path]) -> dict[str, Tensor]:
    """Returns the mean of each tensor, summed in float64."""
    total: dict[str, Tensor] = {}
    for file in files:
        for name, tensor in load_file(file).items():
            total[name] = total.get(name, 0) + tensor.double()
    return {name: (tensor / len(files)).float() for name, tensor in total.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("run", type=Path, help="the folder `model` of the run")
    parser.add_argument("checkpoints", type=Path, nargs="+", help="weights of its checkpoints")
    parser.add_argument("--heldout", type=Path, nargs="+", required=True)
    parser.add_argument("--words", type=int, default=20_000, help="of the held-out text; 0 reads all")
    parser.add_argument("--output", type=Path, help="a folder for the model")
    arguments = parser.parse_args()
    run = native.load(arguments.run)
    bilm, lm_head = native.parts_of(mean_of(arguments.checkpoints))
    model = replace(run, weights=bilm, lm_head=lm_head)
    found = perplexity_report(model, arguments.heldout, run.text or TextConfig(), arguments.words or None)
    print(*(f"{policy} {numbers['mean']:.2f}" for policy, numbers in found["perplexity"].items()))
    if arguments.output:
        names = [file.parent.name if file.name == "model.safetensors" else file.stem for file in arguments.checkpoints]
        card = {**run.card, "mean_of": names, "heldout": found["text"], "perplexity": found["perplexity"]}
        native.save(replace(model, card=card), arguments.output)


if __name__ == "__main__":
    main()
