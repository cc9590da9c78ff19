"""Tries over Gloo: what is done to a training of three processes, and whether it ends as it should."""
import os
import re
import signal
import subprocess
import time
from dataclasses import dataclass, field

from job import Job, faults_of_checkpoints, read_losses

GLOO_KINDS = ("worker", "chief", "stop", "link", "replaced", "twice", "rendezvous")
SIZE, STEPS, EVERY, DEADLINE = 3, 120, 5, 3
MOST_SECONDS = 90  # of a try, besides the time that a process is stopped or cut off
SLACK = 2          # seconds by which a busy machine may find a fault later than the deadline

TRAINING = ["--data-dir", "synthetic", "--train-examples", "960", "--test-examples", "60", "--batch-size", "24",
            "--epochs", "1000", "--steps", str(STEPS), "--mesh", "batch=6", "--workers", "1", "--optimizer", "sgd",
            "--deterministic", "--checkpoint-every", f"{EVERY}steps"]

JOINS_AGAIN = r": joins the others again\.$"
GOES_ON = r": goes on, one of (\d+) processes\.$"
FROM_MEMORY = r"^goes on after step \d+, from memory$"
# How a process ends that was taken for lost, and came back too late.
TOO_LATE = {"the job is over: the others have finished it without process": "the others had finished without it",
            "was started while this one did not answer": "another one was started in its place"}


@dataclass
class Result:
    kind: str
    number: int
    dir: str
    policy: str = "-"
    at: str = "-"    # the moment
    what: str = "-"  # was done
    generations: int = 1
    from_memory: int = 0  # how often the training went on from what was left in memory, and needed no checkpoint
    found: float = None  # how long after the fault
    wall: float = 0
    ends: list = field(default_factory=list)    # how processes ended, where it was not by themselves with exit code 0
    faults: list = field(default_factory=list)  # what was not as it should be


def programs_in(bin):
    """What trains, and the tool."""
    return os.path.join(bin, "examples/mlp_mnist"), os.path.join(bin, "tools/meshwork")


def undisturbed_losses(bin, work):
    """Of one process with all devices: with --deterministic, of any number of them."""
    program, _ = programs_in(bin)
    path = os.path.join(work, "undisturbed.json")
    subprocess.run([program] + TRAINING + ["--cluster", "off", "--json", path, "--checkpoint-dir",
                                           os.path.join(work, "undisturbed")],
                   check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    first, losses = read_losses(path)
    assert first == 1 and len(losses) == STEPS
    return losses


def faults_of_losses(first, losses, expected):
    """What is wrong with the losses of a training that went on before step `first`, from 1."""
    if first + len(losses) - 1 != STEPS:
        return [f"its last step is {first + len(losses) - 1}, not {STEPS}"]
    for step, (loss, right) in enumerate(zip(losses, expected[first - 1:]), first):
        if loss != right:
            return [f"the loss of step {step} is {loss!r}, undisturbed {right!r}"]
    return []


class GlooTries:
    def __init__(self, bin, work, expected, netns_hosts):
        self.program, self.tool = programs_in(bin)
        self.work, self.expected, self.netns_hosts = work, expected, netns_hosts

    def run(self, kind, number, rng):
        result = Result(kind, number, os.path.join(self.work, f"{kind}-{number}"))
        hosts = self.netns_hosts if kind == "link" else None
        if hosts is not None:
            subprocess.run([hosts, "up", str(SIZE + 1)], check=True)
        result.policy = "wait" if kind in ("twice", "replaced") else rng.choice(["wait", "shrink"])
        # Without --recover wait nobody could serve what a lost chief served.
        serves = kind in ("worker", "chief", "stop") and result.policy == "wait" and rng.random() < 0.5
        command = [self.program] + TRAINING + ["--recover", result.policy, "--deadline", str(DEADLINE),
                                               "--recover-deadline", "60"]
        job = Job(result.dir, SIZE, command, self.tool, hosts, serves)
        begun = time.monotonic()
        try:
            for process in range(SIZE):
                job.start(process)
            Try(job, result, rng).disturb()
            result.wall = time.monotonic() - begun
        finally:
            job.end()
            if hosts is not None:
                subprocess.run([hosts, "down"], check=True)
        if serves:
            result.policy += ", served by the chief"
        self.judge(job, result)
        return result

    def judge(self, job, result):
        for program in job.programs:
            code = program.process.returncode
            if code == 0 or (code == -signal.SIGKILL and program.is_killed):
                continue
            late = [end for text, end in TOO_LATE.items() if program.find(text)]
            if code == 2 and program.is_disturbed and late:
                result.ends.append(f"{program.name}: {late[0]}")
                continue
            last = program.lines[-1][1] if program.lines else "without a word"
            result.faults.append(f"{program.name} ended with {code}: {last}")
        files = job.losses()
        if not files:
            result.faults.append("no chief has finished")
        for first, losses in files:
            result.faults += faults_of_losses(first, losses, self.expected)
        result.faults += faults_of_checkpoints(job.checkpoints, STEPS)
        if result.found is not None and result.found > DEADLINE + SLACK:
            result.faults.append(f"found after {result.found:.2f} s, the deadline is {DEADLINE} s")
        counts = [sum(1 for _, text in p.lines if re.search(GOES_ON, text)) for p in job.programs]
        result.generations = 1 + max(counts)
        result.from_memory = sum(1 for p in job.programs for _, text in p.lines if re.search(FROM_MEMORY, text))


class Try:
    def __init__(self, job, result, rng):
        self.job, self.result, self.rng = job, result, rng
        self.until = time.monotonic() + MOST_SECONDS

    def disturb(self):
        self.await_moment()
        self.fault_at = time.monotonic()
        getattr(self, self.result.kind)()
        if not self.job.wait(self.until):
            running = [p.name for p in self.job.programs if p.process.poll() is None]
            self.result.faults.append(f"{', '.join(running)} did not end within {MOST_SECONDS} s")
        self.find()

    def await_moment(self):
        """A moment in the training; where a lost process is waited for, also before it has begun."""
        rng, job = self.rng, self.job
        if self.result.policy == "wait" and rng.random() < 0.2:
            time.sleep(rng.uniform(0, 1.5))
            self.result.at = f"step {job.newest_step()}, early" if job.newest_step() else "start"
            return
        step = rng.randrange(0 if self.result.policy == "wait" else EVERY, STEPS * 3 // 4)
        while job.newest_step() < step and job.is_running() and time.monotonic() < self.until:
            time.sleep(0.002)
        time.sleep(rng.uniform(0, 0.1))
        self.result.at = f"step {job.newest_step()}"

    def find(self):
        """When the first of the processes that were not disturbed has found the fault."""
        found = [p.find(JOINS_AGAIN, self.fault_at) for p in self.job.programs if not p.is_disturbed]
        times = [line[0] - self.fault_at for line in found if line is not None]
        self.result.found = min(times, default=None)

    def kill(self, number):
        program = self.job.current(number)
        program.is_killed = program.process.poll() is None
        self.job.note(f"kill -9 of {program.name}")
        program.signal(signal.SIGKILL)

    def replace(self, number):
        if self.result.policy == "shrink":
            return
        time.sleep(self.rng.uniform(0, 1))
        self.job.start(number)

    # ---- The kinds.

    def worker(self):
        number = self.rng.randrange(1, SIZE)
        self.result.what = f"kill -9 of worker {number}"
        self.kill(number)
        self.replace(number)

    def chief(self):
        self.result.what = "kill -9 of the chief"
        self.kill(0)
        self.replace(0)

    def stop(self):
        number = self.rng.randrange(SIZE)
        length = self.rng.uniform(0.2, 2.5) * DEADLINE
        self.result.what = f"SIGSTOP of worker {number} for {length:.1f} s"
        self.job.note(self.result.what)
        program = self.job.current(number)
        program.signal(signal.SIGSTOP)
        time.sleep(length)
        self.job.note("SIGCONT")
        program.signal(signal.SIGCONT)
        self.until += length

    def link(self):
        number = self.rng.randrange(SIZE)
        length = self.rng.uniform(0.2, 2.5) * DEADLINE
        self.result.what = f"cable of worker {number} cut for {length:.1f} s"
        self.job.note(self.result.what)
        self.job.current(number).is_disturbed = True
        subprocess.run([self.job.hosts, "cut", str(number + 1)], check=True)
        time.sleep(length)
        self.job.note("healed")
        subprocess.run([self.job.hosts, "heal", str(number + 1)], check=True)
        self.until += length

    def replaced(self):
        number = self.rng.randrange(SIZE)
        self.result.what = f"SIGSTOP of worker {number}, which is replaced"
        program = self.job.current(number)
        self.job.note(self.result.what)
        program.signal(signal.SIGSTOP)
        # Before the others miss it, or after that.
        time.sleep(self.rng.uniform(0, 1.5) * DEADLINE)
        self.job.start(number).is_disturbed = True  # one of the two is too late: this one, if nobody missed the other
        time.sleep(self.rng.uniform(0, 1.5) * DEADLINE)
        self.job.note("SIGCONT")
        program.signal(signal.SIGCONT)

    def twice(self):
        first, second = self.rng.sample(range(SIZE), 2)
        self.result.what = f"kill -9 of worker {first}, then {second}"
        self.kill(first)
        time.sleep(self.rng.uniform(0, 0.5))
        self.job.start(first)
        time.sleep(self.rng.uniform(0, 0.5))
        self.kill(second)
        self.replace(second)

    def rendezvous(self):
        number = self.rng.randrange(SIZE)
        self.result.what = f"kill -9 of rendezvous, and worker {number}"
        self.job.rendezvous.end()
        time.sleep(self.rng.uniform(0, 0.5))
        self.kill(number)
        time.sleep(self.rng.uniform(0, 0.5))
        self.job.start_rendezvous()
        self.replace(number)
