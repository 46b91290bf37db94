"""Train a small network with any number of workers, as a ring or with parameter servers: `python train.py --steps 200`.

The data are synthetic. A step takes a global batch of samples, numbered through the whole training, and each worker
takes an equal part of it: so which samples a step sees does not depend on the number of workers. With `--minibatch`
each worker takes as many samples whatever their number is, and steps are counted in such mini-batches. With the same
seed and the same number of workers, a job that was stopped and resumed ends with the same weights, bit by bit.
"""

import argparse
import json
import os
import sys
import time
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Final

import contract  # before what takes long to import: SIGTERM is noted from here on

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # a process takes one core, and its sums one order

import numpy as np

from exchange import COUNT, LOSS, STOP, TOTALS, Exchange, Floats, PeerLost, Ring, Servers, StoppedEarly, Waits, serve

FEATURES: Final = 32
CLASSES: Final = 10
SAMPLES: Final = 4096
"""Number of samples of an epoch."""
NAP_S: Final = 0.05
"""Longest sleep without a look for SIGTERM, seconds."""


@dataclass(frozen=True)
class Options:
    """Arguments of the command line."""

    steps: int
    batch: int
    minibatch: int
    """Samples of each worker in a step; 0: its share of a batch."""
    hidden: int
    rate: float
    seed: int
    step_s: float
    sample_s: float
    checkpoint_every: int
    waits: Waits


@dataclass(frozen=True)
class State:
    """The content of a checkpoint: all that the rest of the training depends on."""

    weights: Floats
    """All parameters in one array, shape (parameters,)."""
    step: int = 0
    """Number of steps done."""
    samples: int = 0
    """Number of samples seen."""


class Network:
    """A network with one hidden layer, tanh, and softmax over classes."""

    def __init__(self, hidden: int) -> None:
        self.shapes = ((FEATURES, hidden), (hidden,), (hidden, CLASSES), (CLASSES,))
        self.parameters = sum(int(np.prod(shape)) for shape in self.shapes)

    def initial(self, seed: int) -> Floats:
        """Return random weights."""
        rng = np.random.default_rng(seed)
        return np.concatenate([rng.normal(0, 1 / np.sqrt(shape[0]), shape).ravel() for shape in self.shapes])

    def loss_and_gradient(self, weights: Floats, inputs: Floats, labels: Floats) -> tuple[float, Floats]:
        """Return the cross-entropy, and its gradient, as sums over samples.

        Parameters
        ----------
        weights
            Shape (parameters,).
        inputs, labels
            Shapes (samples, FEATURES) and (samples, CLASSES); labels are one-hot.
        """
        first, bias, second, bias2 = self._unpacked(weights)
        hidden = np.tanh(inputs @ first + bias)
        scores = hidden @ second + bias2
        scores -= scores.max(axis=1, keepdims=True)
        logs = scores - np.log(np.exp(scores).sum(axis=1, keepdims=True))
        errors = np.exp(logs) - labels
        back = errors @ second.T * (1 - hidden**2)
        parts = (inputs.T @ back, back.sum(axis=0), hidden.T @ errors, errors.sum(axis=0))
        return float(-(labels * logs).sum()), np.concatenate([part.ravel() for part in parts])

    def _unpacked(self, weights: Floats) -> list[Floats]:
        ends = np.cumsum([int(np.prod(shape)) for shape in self.shapes])[:-1]
        return [part.reshape(shape) for part, shape in zip(np.split(weights, ends), self.shapes, strict=True)]


class Data:
    """Points around the centre of their class, in another order in each epoch."""

    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng((seed, 1))
        classes = rng.integers(CLASSES, size=SAMPLES)
        self.inputs = rng.normal(size=(CLASSES, FEATURES))[classes] + rng.normal(0, 0.6, (SAMPLES, FEATURES))
        self.labels = np.eye(CLASSES)[classes]
        self.order = lru_cache(maxsize=2)(lambda epoch: np.random.default_rng((seed, 2, epoch)).permutation(SAMPLES))

    def samples(self, begin: int, end: int) -> tuple[Floats, Floats]:
        """Return inputs and labels of the samples from `begin` to `end`, as numbered through the whole training."""
        rows = np.array([self.order(number // SAMPLES)[number % SAMPLES] for number in range(begin, end)], dtype=int)
        return self.inputs[rows], self.labels[rows]


def share(batch: int, job: contract.Job) -> tuple[int, int]:
    """Return the part of a global batch that this worker takes: positions of its first sample and after its last."""
    return batch * job.rank // job.world, batch * (job.rank + 1) // job.world


def load(folder: Path | None, network: Network, seed: int) -> State:
    """Return the state in a checkpoint, or a new one.

    Raises
    ------
    ContractError
        If the checkpoint cannot be read, or is one of another network.
    """
    if folder is None:
        return State(network.initial(seed))
    try:
        weights, said = np.load(folder / "weights.npy"), json.loads((folder / "state.json").read_text())
    except (OSError, ValueError) as error:
        raise contract.ContractError(f"checkpoint: expected weights.npy and state.json, got {error}") from error
    if weights.shape != (network.parameters,):
        raise contract.ContractError(f"checkpoint: expected {network.parameters} parameters, got {weights.shape}")
    return State(weights, step=contract.step_of(folder), samples=said["samples"])


def save(state: State, folder: Path) -> None:
    """Write a state into a directory."""
    np.save(folder / "weights.npy", state.weights)
    (folder / "state.json").write_text(json.dumps({"step": state.step, "samples": state.samples}))


@dataclass
class Trainer:
    """A worker."""

    job: contract.Job
    options: Options
    network: Network
    data: Data
    exchange: Exchange
    state: State
    saved: int
    """Number of steps in the newest checkpoint."""

    def run(self) -> int:
        """Train until all steps are done or any process of the job has to stop; return the exit code."""
        progress = contract.Progress(self.job)
        begun, stop = self.state.step, False
        try:
            while self.state.step < self.options.steps and not stop:
                begin_s = time.monotonic()
                loss, stop = self._step(begin_s)
                seconds = time.monotonic() - begin_s
                progress.add(step=self.state.step, loss=loss, seconds=seconds)
                self._print(f"step {self.state.step} of {self.options.steps}: loss {loss:.4f}, {seconds:.3f} s")
                if self._is_due():
                    self._save()
            self._save()
            self.exchange.finish(stopped=self.state.step < self.options.steps)
        except PeerLost:
            if contract.SIGNALS.terminated and self.state.step == begun:
                raise StoppedEarly from None  # another process stopped before the first step
            self._save()  # the last whole step is not lost
            raise
        return contract.DONE if self.state.step >= self.options.steps else contract.STOPPED

    def _step(self, begin_s: float) -> tuple[float, bool]:
        """Make one step; return its mean loss, and whether any process has to stop: the same for all workers."""
        batch, steps = self.options.batch, 1
        if self.options.minibatch:
            batch, steps = self.options.minibatch * self.job.world, self.job.world
        first, last = share(batch, self.job)
        inputs, labels = self.data.samples(self.state.samples + first, self.state.samples + last)
        loss, gradient = self.network.loss_and_gradient(self.state.weights, inputs, labels)
        _rest(begin_s + max(self.options.step_s, self.options.sample_s * (last - first)))
        totals = np.zeros(TOTALS)
        totals[[COUNT, LOSS, STOP]] = last - first, loss, contract.SIGNALS.terminated
        weights, totals = self.exchange.step(self.state.weights, gradient, totals)
        done = min(self.state.step + steps, self.options.steps)  # the last step may have more workers than are needed
        self.state = State(weights, done, self.state.samples + int(totals[COUNT]))
        return float(totals[LOSS] / totals[COUNT]), bool(totals[STOP])

    def _is_due(self) -> bool:
        """Return whether as many steps were done since the last checkpoint as there may be between two."""
        every = self.options.checkpoint_every
        return bool(every) and self.state.step // every > self.saved // every

    def _save(self) -> None:
        """Write a checkpoint, if this is the first worker and there is something new."""
        if self.job.rank == 0 and self.job.checkpoints is not None and self.state.step > self.saved:
            made = contract.write_checkpoint(self.job.checkpoints, self.state.step, partial(save, self.state))
            self.saved = self.state.step
            self._print(f"checkpoint {made}")

    def _print(self, line: str) -> None:
        if self.job.rank == 0:
            print(line, flush=True)


def _rest(until_s: float) -> None:
    """Sleep until a time, as a longer computation would take; less if SIGTERM comes."""
    while (left := until_s - time.monotonic()) > 0 and not contract.SIGNALS.terminated:
        time.sleep(min(left, NAP_S))


def main() -> int:
    """Do what the environment says; return the exit code."""
    name = "process"
    try:
        job = contract.Job.from_environment()
        name = f"{job.role} {job.rank}"
        return run(job, parsed(job))
    except StoppedEarly:
        print(f"{name}: stopped before the first step", flush=True)
        return contract.STOPPED
    except (PeerLost, contract.ContractError, OSError) as error:
        print(f"{name}: {error}", file=sys.stderr, flush=True)
        return contract.FAILED


def run(job: contract.Job, options: Options) -> int:
    """Take part in the job as a worker or as a parameter server; return the exit code."""
    network = Network(options.hidden)
    state = load(job.resume, network, options.seed)
    print(f"{job.role} {job.rank} of {job.world}: generation {job.generation} begins at step {state.step}", flush=True)
    if job.role == "ps":
        stopped = serve(job, state.weights, rate=options.rate, waits=options.waits)
        return contract.STOPPED if stopped else contract.DONE
    data = Data(options.seed)
    if job.architecture == "ring":
        exchange: Exchange = Ring.of(job, rate=options.rate, waits=options.waits)
    else:
        exchange = Servers.of(job, waits=options.waits)
    return Trainer(job, options, network, data, exchange, state, saved=state.step).run()


def parsed(job: contract.Job) -> Options:
    """Read the command line. The number of steps that the bid states counts."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--steps", type=int, default=60, help="number of steps in all, if the bid states none")
    parser.add_argument("--batch", type=int, default=96, help="samples of a step, of all workers together")
    parser.add_argument(
        "--minibatch", type=int, default=0, help="instead: samples of each worker in a step, which then counts for each"
    )
    parser.add_argument("--hidden", type=int, default=64, help="size of the hidden layer; 1 M parameters: 23256")
    parser.add_argument("--rate", type=float, default=0.2, help="learning rate")
    parser.add_argument("--seed", type=int, default=1, help="seed of weights and data")
    parser.add_argument("--step-s", type=float, default=0.0, help="shortest time of a step, seconds")
    parser.add_argument("--sample-s", type=float, default=0.0, help="shortest time of a sample on a worker, seconds")
    parser.add_argument("--checkpoint-every", type=int, default=20, help="steps between checkpoints; 0: one at the end")
    parser.add_argument("--start-s", type=float, default=30.0, help="longest wait for all processes to start, seconds")
    parser.add_argument("--peer-s", type=float, default=30.0, help="longest silence of another process, seconds")
    given = vars(parser.parse_args())
    given["waits"] = Waits(given.pop("start_s"), given.pop("peer_s"))
    options = Options(**{**given, "steps": given["steps"] if job.steps is None else job.steps})
    if options.batch < job.world:
        raise contract.ContractError(
            f"--batch: expected at least {job.world}, one for each worker, got {options.batch}"
        )
    return options


if __name__ == "__main__":
    contract.leave(main())
