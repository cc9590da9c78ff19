"""A training by several processes, as a test of faults starts, disturbs and watches it."""
import hashlib
import json
import os
import re
import signal
import socket
import subprocess
import threading
import time

STEP_FOLDER = re.compile(r"step-(\d{12})$")


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for s in sockets:
        s.bind(("127.0.0.1", 0))
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


class Program:
    """A process, and every line that it writes, with the time of the line."""

    def __init__(self, name, command, environment, log):
        self.name, self.log, self.lines = name, log, []
        self.started = time.monotonic()
        # A group of its own, so that what it starts ends with it.
        self.process = subprocess.Popen(command, env=dict(os.environ, **environment), stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)
        self.is_disturbed = self.is_killed = False
        self.ended = None
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in iter(self.process.stdout.readline, b""):
            now, text = time.monotonic(), line.decode(errors="replace").rstrip("\n")
            self.lines.append((now, text))
            self.log.write(f"{now:.3f} [{self.name}] {text}\n")
        self.ended = time.monotonic()

    def signal(self, number):
        self.is_disturbed = True
        if self.process.poll() is None:
            os.kill(self.process.pid, number)

    def end(self):
        """Whatever it does, and what it has started."""
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()

    def find(self, pattern, since=0.0):
        """When a line matched, and which; None if none did."""
        for when, text in list(self.lines):
            if when >= since and re.search(pattern, text):
                return when, text
        return None


class Job:
    """Processes of one cluster, which train in the folder `dir`.

    `hosts`: the program that makes hosts of network namespaces; process i runs on host i + 1, the rendezvous on the host
    behind the last. Without, all run here.
    """

    def __init__(self, dir, size, command, tool, hosts=None, serves=False):
        self.dir, self.size, self.command, self.tool, self.hosts = dir, size, command, tool, hosts
        self.programs = []  # all that were ever started
        self.rendezvous = None
        os.makedirs(dir)
        self.checkpoints = os.path.join(dir, "checkpoints")
        self.log = open(os.path.join(dir, "log"), "w", buffering=1)
        if hosts is not None:
            addresses = [f"10.77.0.{i + 1}:4444" for i in range(size + 1)]
        else:
            addresses = [f"127.0.0.1:{port}" for port in free_ports(size + 1)]
        self.workers, self.meeting = addresses[:size], addresses[size]
        self.environment = {"MESHWORK_TOKEN": dir}
        if not serves:
            self.environment["MESHWORK_RENDEZVOUS"] = self.meeting
            self.start_rendezvous()

    def note(self, text):
        self.log.write(f"{time.monotonic():.3f} {text}\n")

    def on_host(self, host, command):
        return command if self.hosts is None else [self.hosts, "exec", str(host + 1)] + command

    def start_rendezvous(self):
        command = self.on_host(self.size, [self.tool, "rendezvous", "--address", self.meeting])
        self.rendezvous = Program("rendezvous", command, self.environment, self.log)

    def start(self, number):
        """Process `number`, or one in its place."""
        task = {"cluster": {"worker": self.workers}, "task": {"type": "worker", "index": number}}
        command = self.command + ["--checkpoint-dir", self.checkpoints, "--resume",
                                  "--json", os.path.join(self.dir, f"losses-{number}.json")]
        starts = sum(p.number == number for p in self.programs)
        program = Program(f"{number}.{starts}", self.on_host(number, command),
                          dict(self.environment, TF_CONFIG=json.dumps(task)), self.log)
        program.number = number
        self.programs.append(program)
        return program

    def current(self, number):
        return [p for p in self.programs if p.number == number][-1]

    def newest_step(self):
        return newest_step_in(self.checkpoints)

    def is_running(self):
        return any(p.process.poll() is None for p in self.programs)

    def wait(self, until):
        """Until all have ended; returns whether they have by `until`."""
        while self.is_running() and time.monotonic() < until:
            time.sleep(0.01)
        return not self.is_running()

    def end(self):
        for program in self.programs + ([self.rendezvous] if self.rendezvous else []):
            program.end()
            program.reader.join(timeout=5)
        self.log.close()

    def losses(self):
        """What read_losses says of each file that a chief wrote."""
        paths = [os.path.join(self.dir, f"losses-{number}.json") for number in range(self.size)]
        return [read_losses(path) for path in paths if os.path.exists(path)]


def newest_step_in(folder):
    """Of its checkpoints; 0 if there is none."""
    try:
        found = [STEP_FOLDER.match(name) for name in os.listdir(folder)]
    except FileNotFoundError:
        return 0
    return max([int(m.group(1)) for m in found if m], default=0)


def read_losses(path):
    """The number of the first step that a chief made, from 1, and the losses from there."""
    with open(path) as file:
        report = json.load(file)
    return report["first_step"], report["step_losses"]


def faults_of_checkpoint(path):
    """What is wrong with a checkpoint, by another program than the one that wrote it."""
    try:
        with open(os.path.join(path, "index.json")) as file:
            index = json.load(file)
        for shard in index["shards"]:
            with open(os.path.join(path, shard["file"]), "rb") as file:
                data = file.read()
            if len(data) != shard["bytes"] or hashlib.sha256(data).hexdigest() != shard["sha256"]:
                return [f"{path}: {shard['file']} is not what was written"]
        if index["step"] != int(STEP_FOLDER.search(path).group(1)):
            return [f"{path}: its index says step {index['step']}"]
    except (OSError, ValueError, KeyError) as error:
        return [f"{path}: {error!r}"]
    return []


def faults_of_checkpoints(folder, last_step):
    names = sorted(name for name in os.listdir(folder) if STEP_FOLDER.match(name)) if os.path.isdir(folder) else []
    faults = [fault for name in names for fault in faults_of_checkpoint(os.path.join(folder, name))]
    if not names or int(names[-1][5:]) != last_step:
        faults.append(f"{folder}: there is no checkpoint of step {last_step}")
    return faults
