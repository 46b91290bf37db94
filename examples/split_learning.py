"""One process of parallel split learning, a client or a helper: `python split_learning.py FOLDER helper 0`.

A client has the first and the last part of a network and its own synthetic data; its helper has the middle part, a copy
for each client. Activations and gradients go over TCP. `FOLDER/setting.json` has the order in which each helper runs
(parts of) passes, and how long each task takes: a task that computes faster waits for the rest of its time. Processes
read that and the beginnings of batches, and write only in `FOLDER/written`.
"""

import json
import os
import socket
import struct
import sys
import time
from pathlib import Path
from typing import Any, Final

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

SAMPLES: Final = 32
FEATURES: Final = 16
WIDTH: Final = 24
CLASSES: Final = 4
RATE: Final = 0.3
POLL_S: Final = 0.002
HEADER: Final = struct.Struct("!II")


def send(peer: socket.socket, values: Floats) -> None:
    """Send a matrix."""
    peer.sendall(HEADER.pack(*values.shape) + values.tobytes())


def receive(peer: socket.socket) -> Floats:
    """Receive a matrix; raises ConnectionError if the peer is gone."""
    rows, columns = HEADER.unpack(_exactly(peer, HEADER.size))
    return np.frombuffer(_exactly(peer, rows * columns * 8), dtype=np.float64).reshape(rows, columns)


def _exactly(peer: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = peer.recv(size - len(data))
        if not part:
            raise ConnectionError("expected more from the peer, got the end of the connection")
        data += part
    return data


class Party:
    """A client or a helper: its folder, the batch that it runs, and the record of its tasks."""

    def __init__(self, folder: Path, role: str, number: int) -> None:
        self.folder, self.written, self.name = folder, folder / "written", f"{role}-{number}"
        self.setting: dict[str, Any] = json.loads((folder / "setting.json").read_text())
        self.batches: int = self.setting["batches"]
        self.batch = 0
        self.now = 0.0

    def begin(self, batch: int) -> None:
        """Say that this process is ready for a batch, and wait until all are."""
        self.batch = batch
        (self.written / f"ready-{batch}-{self.name}").touch()
        self.now = float(wait_for(self.folder / f"begin-{batch}"))
        time.sleep(max(0.0, self.now - time.time()))

    def end_task(self, client: int, kind: str, start: float, slots: int, **more: float) -> None:
        """Wait until a task has taken its slots, and record it."""
        time.sleep(max(0.0, start + slots * self.setting["slot_s"] - time.time()))
        task = {"batch": self.batch, "client": client, "kind": kind, "start": start, "end": time.time(), **more}
        with (self.written / f"tasks-{self.name}.jsonl").open("a") as file:
            file.write(json.dumps(task) + "\n")


def wait_for(path: Path) -> str:
    """Return the text of a file as soon as it is there; writers rename it into place."""
    while not path.exists():
        time.sleep(POLL_S)
    return path.read_text()


def serve(party: Party, number: int) -> None:
    """Be a helper: run pieces of passes in the order of the plan."""
    pieces = party.setting["helpers"][number]
    members = {client for client, *_ in pieces}
    peers: dict[int, socket.socket] = {}
    with socket.create_server(("127.0.0.1", 0)) as listener:
        aside = party.written / f".port-{number}"
        aside.write_text(str(listener.getsockname()[1]))
        aside.rename(party.written / f"port-{number}")
        while len(peers) < len(members):
            peer, _ = listener.accept()
            peers[int(receive(peer)[0, 0])] = peer
    weights = {client: np.random.default_rng(client).normal(0, 0.2, (WIDTH, WIDTH)) for client in members}
    for batch in range(party.batches):
        party.begin(batch)
        inputs: dict[int, Floats] = {}
        outputs: dict[int, Floats] = {}
        parts: dict[tuple[int, str], list[Floats]] = {}
        given: dict[tuple[int, str], Floats] = {}
        for client, kind, part, count, slots in pieces:
            key = client, kind
            if part == 0:
                given[key], parts[key] = receive(peers[client]), []
            start = time.time()
            # Each piece of an interrupted pass takes its part of the samples.
            rows = np.array_split(np.arange(SAMPLES), count)[part]
            if kind == "forward":
                parts[key].append(np.tanh(given[key][rows] @ weights[client]))
            else:
                inner = given[key][rows] * (1 - outputs[client][rows] ** 2)
                parts[key].append(inner @ weights[client].T)
            party.end_task(client, kind, start, slots, part=part)
            if part + 1 < count:
                continue
            whole = np.concatenate(parts[key])
            send(peers[client], whole)
            if kind == "forward":
                inputs[client], outputs[client] = given[key], whole
            else:
                weights[client] -= RATE * inputs[client].T @ (given[key] * (1 - outputs[client] ** 2))


def train(party: Party, number: int) -> None:
    """Be a client: run the first and the last part of the network, forward and backward."""
    times = party.setting["clients"][number]
    port = int(wait_for(party.written / f"port-{times['helper']}"))
    generator = np.random.default_rng(1000 + number)
    samples = generator.normal(size=(SAMPLES, FEATURES))
    labels = (samples @ generator.normal(size=(FEATURES, CLASSES))).argmax(axis=1)
    first = generator.normal(0, 0.3, (FEATURES, WIDTH))
    last = generator.normal(0, 0.3, (WIDTH, CLASSES))
    with socket.create_connection(("127.0.0.1", port)) as helper:
        send(helper, np.array([[float(number)]]))
        for batch in range(party.batches):
            party.begin(batch)
            activations = np.tanh(samples @ first)
            party.end_task(number, "release", party.now, times["release"])
            send(helper, activations)
            middle = receive(helper)
            start = time.time()
            scores = middle @ last
            chances = np.exp(scores - scores.max(axis=1, keepdims=True))
            chances /= chances.sum(axis=1, keepdims=True)
            loss = float(-np.log(chances[np.arange(SAMPLES), labels]).mean())
            wrong = (chances - np.eye(CLASSES)[labels]) / SAMPLES
            gradient = wrong @ last.T
            last -= RATE * middle.T @ wrong
            party.end_task(number, "gap", start, times["gap"], loss=loss)
            send(helper, gradient)
            gradient = receive(helper)
            start = time.time()
            first -= RATE * samples.T @ (gradient * (1 - activations**2))
            party.end_task(number, "tail", start, times["tail"])
            print(f"batch {batch}: loss {loss:.3f}", flush=True)


if __name__ == "__main__":
    here = Party(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
    (serve if sys.argv[2] == "helper" else train)(here, int(sys.argv[3]))
