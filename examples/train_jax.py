"""Train a small network with JAX on any number of workers, stopping and resuming as the contract says.

It needs `pip install jax`. The workers find one another at MASTER_ADDR and MASTER_PORT, as under torchrun, and JAX sums
their gradients over the network. The global batch is drawn from the seed and the number of the step, so that the
samples do not depend on the number of workers.
"""

import argparse
import os
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import contract  # before what takes long to import: SIGTERM is noted from here on

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import jax.numpy as jnp
import numpy as np

FEATURES, HIDDEN, CLASSES = 32, 64, 10
BATCH = 96
"""Samples of a step, of all workers together."""


def initial(seed: int) -> dict[str, Any]:
    """Return random weights."""
    rng = np.random.default_rng(seed)
    shapes = {"first": (FEATURES, HIDDEN), "bias": (HIDDEN,), "second": (HIDDEN, CLASSES), "bias2": (CLASSES,)}
    return {name: rng.normal(0, shape[0] ** -0.5, shape).astype(np.float32) for name, shape in shapes.items()}


def batch(seed: int, step: int) -> tuple[Any, Any]:
    """Return the inputs and classes of the global batch of a step."""
    centres = np.random.default_rng((seed, 1)).normal(size=(CLASSES, FEATURES))
    rng = np.random.default_rng((seed, 2, step))
    classes = rng.integers(CLASSES, size=BATCH)
    return (centres[classes] + rng.normal(0, 0.6, (BATCH, FEATURES))).astype(np.float32), classes


def loss_of(weights: dict[str, Any], inputs: Any, classes: Any) -> Any:
    """Return the mean cross-entropy of a batch."""
    hidden = jnp.tanh(inputs @ weights["first"] + weights["bias"])
    logs = jax.nn.log_softmax(hidden @ weights["second"] + weights["bias2"])
    return -jnp.take_along_axis(logs, classes[:, None], axis=1).mean()


def advance(weights: dict[str, Any], inputs: Any, classes: Any, stops: Any) -> tuple[dict[str, Any], Any, Any]:
    """Make a step; return weights, loss, and whether any worker has to stop: the same for all of them."""
    loss, gradient = jax.value_and_grad(loss_of)(weights, inputs, classes)
    return jax.tree.map(lambda value, slope: value - 0.2 * slope, weights, gradient), loss, stops.max()


def train(job: contract.Job, *, steps: int, every: int, seed: int, step_s: float) -> int:
    """Train until all steps are done or any worker has to stop; return the exit code."""
    mesh = jax.make_mesh((job.world,), ("workers",))
    split = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("workers"))
    whole = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())
    mine = slice(BATCH // job.world * job.rank, BATCH // job.world * (job.rank + 1))
    compiled = jax.jit(advance, out_shardings=(whole, whole, whole))
    spread = partial(jax.make_array_from_process_local_data, split)

    begun = contract.step_of(job.resume) if job.resume else 0
    loaded = dict(np.load(job.resume / "weights.npz")) if job.resume else initial(seed)
    weights = {name: jax.make_array_from_process_local_data(whole, value) for name, value in loaded.items()}
    progress = contract.Progress(job)
    for step in range(begun + 1, steps + 1):
        begin_s = time.monotonic()
        inputs, classes = batch(seed, step)
        time.sleep(step_s)
        stop = np.array([contract.SIGNALS.terminated], dtype=np.int32)
        weights, loss, stopping = compiled(weights, spread(inputs[mine]), spread(classes[mine]), spread(stop))
        progress.add(step=step, loss=float(loss), seconds=time.monotonic() - begin_s)
        print(f"step {step} of {steps}: loss {float(loss):.4f}", flush=True)
        if job.rank == 0 and job.checkpoints and (stopping or step == steps or (every and step % every == 0)):
            values = {name: np.asarray(value) for name, value in weights.items()}
            contract.write_checkpoint(job.checkpoints, step, partial(save, values))
        if stopping and step < steps:
            return contract.STOPPED
    return contract.DONE


def save(weights: dict[str, Any], folder: Path) -> None:
    """Write weights into a directory."""
    np.savez(folder / "weights.npz", **weights)


def main() -> int:
    """Do what the environment and the command line say; return the exit code."""
    job = contract.Job.from_environment()
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--checkpoint-every", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--step-s", type=float, default=0.0)
    given = parser.parse_args()
    if job.role == "ps":
        return contract.DONE  # workers sum their gradients among themselves
    if BATCH % job.world:
        raise contract.ContractError(f"expected workers whose number divides {BATCH}, got {job.world}")
    if job.world > 1:
        jax.config.update("jax_cpu_collectives_implementation", "gloo")
        jax.config.update("jax_enable_preemption_service", False)  # it would take SIGTERM for itself
        address = f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"
        jax.distributed.initialize(address, num_processes=job.world, process_id=job.rank)
    steps = given.steps if job.steps is None else job.steps
    code = train(job, steps=steps, every=given.checkpoint_every, seed=given.seed, step_s=given.step_s)
    if job.world > 1:
        jax.distributed.shutdown()  # waits for the others: the checkpoint of the first is whole then
    return code


if __name__ == "__main__":
    try:
        contract.leave(main())
    except Exception as error:  # JAX would wait for a lost worker when Python ends
        print(f"failed: {error}", file=sys.stderr, flush=True)
        os._exit(contract.FAILED)
