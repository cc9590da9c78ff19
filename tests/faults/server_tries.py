"""Tries of a training with parameter servers: a worker, a server or the chief is killed, and started again."""
import json
import os
import re
import signal
import time

from gloo_tries import Result
from job import Program, free_ports

# Name of the kind, and the role of what is killed.
SERVER_KINDS = {"ps-worker": "worker", "ps-backup": "worker", "ps-server": "ps", "ps-gather": "ps", "ps-chief": "chief"}
ROLES = {"chief": 1, "worker": 3, "ps": 2}
GATHERING_KINDS = ("ps-backup", "ps-gather")
GATHER = 2  # of these kinds
EPOCHS, STEPS_PER_EPOCH = 3, 250
STEPS = EPOCHS * STEPS_PER_EPOCH
MOST_SECONDS = 90
DONE = r"^(\d+) steps, updates ([\d ]+), test loss (\S+), accuracy (\S+)$"
LEAST_ACCURACY = 0.85


class ServerTries:
    def __init__(self, bin, work):
        self.program = os.path.join(bin, "examples/strategies/parameter_server_training")
        self.work = work

    def start(self, role, index):
        task = {"cluster": self.addresses, "task": {"type": role, "index": index}}
        command = [self.program, "--train-examples", "4000", "--test-examples", "500", "--epochs", str(EPOCHS),
                   "--steps-per-epoch", str(STEPS_PER_EPOCH), "--save-every", "25", "--deadline", "30",
                   "--folder", os.path.join(self.dir, "servers"), "--gather", str(self.gather)]
        program = Program(f"{role} {index}", command, {"TF_CONFIG": json.dumps(task), "MESHWORK_TOKEN": self.dir}, self.log)
        self.all.append(program)
        self.programs[role, index] = program

    def chief(self):
        return self.programs["chief", 0]

    def run(self, kind, number, rng):
        result = Result(kind, number, os.path.join(self.work, f"{kind}-{number}"))
        os.makedirs(result.dir)
        self.dir, self.programs, self.all = result.dir, {}, []
        self.gather = GATHER if kind in GATHERING_KINDS else 0
        ports = iter(free_ports(sum(ROLES.values())))
        self.addresses = {role: [f"127.0.0.1:{next(ports)}" for _ in range(count)] for role, count in ROLES.items()}
        began = time.monotonic()
        with open(os.path.join(result.dir, "log"), "w", buffering=1) as self.log:
            try:
                for role, count in ROLES.items():
                    for index in range(count):
                        self.start(role, index)
                self.disturb(kind, result, rng)
                self.wait(result)
                result.wall = time.monotonic() - began
            finally:
                for program in self.all:
                    program.end()
                    program.reader.join(timeout=5)
        self.judge(result)
        return result

    def disturb(self, kind, result, rng):
        role = SERVER_KINDS[kind]
        index = rng.randrange(ROLES[role])
        end = time.monotonic() + 30
        while not self.chief().find("^training ") and self.chief().ended is None and time.monotonic() < end:
            time.sleep(0.002)
        moment = rng.uniform(0, 1.5)
        time.sleep(moment)
        program = self.programs[role, index]
        result.at, result.what = f"after {moment:.2f} s", f"SIGKILL of {program.name}"
        self.is_over = self.chief().ended is not None
        program.is_killed = True
        program.signal(signal.SIGKILL)
        # A worker need not come back.
        comes_back = role != "worker" or rng.random() < 0.5
        if comes_back:
            time.sleep(rng.uniform(0, 0.5))
            result.policy = "again"
            if self.chief().ended is None or role == "chief":
                self.start(role, index)

    def wait(self, result):
        end = time.monotonic() + MOST_SECONDS
        while any(p.ended is None for p in self.programs.values()) and time.monotonic() < end:
            time.sleep(0.01)
            # One that was started again as the others ended finds nobody, which is no fault.
            if self.chief().ended is not None and self.chief().process.poll() == 0:
                end = min(end, self.chief().ended + 10)
        for program in self.programs.values():
            if program.ended is None and not (program in self.late()):
                result.faults.append(f"{program.name} did not end")

    def late(self):
        """Those that were started when the chief had asked all others to end."""
        return [p for p in self.programs.values() if self.chief().ended is not None and p is not self.chief() and
                p.started > self.chief().ended - 1]

    def judge(self, result):
        if self.is_over:
            result.what += ", which had ended"
        done = self.chief().find(DONE) or next((p.find(DONE) for p in self.all if p.find(DONE)), None)
        if done is None:
            result.faults.append("the chief did not say that the training has ended")
            return
        steps, updates, _, accuracy = re.match(DONE, done[1]).groups()
        expected = STEPS // max(self.gather, 1)
        if int(steps) != STEPS or updates != " ".join([str(expected)] * ROLES["ps"]):
            result.faults.append(f"{steps} steps, and {updates} updates of the servers; there should be {STEPS} and {expected}")
        if float(accuracy) < LEAST_ACCURACY:
            result.faults.append(f"the accuracy is {accuracy}")
        for program in self.all:
            code = program.process.returncode
            if code != 0 and not program.is_killed and program not in self.late():
                result.faults.append(f"{program.name} ended with {code}")
