"""Tries by MPI, under meshwork supervise: mpirun ends the job, names who is lost, and the job goes on where it was."""
import os
import re
import signal
import time

from gloo_tries import DEADLINE, EVERY, SIZE, STEPS, TRAINING, Result, faults_of_losses, programs_in
from job import Program, faults_of_checkpoints, newest_step_in, read_losses

MOST_SECONDS = 90
MOST_TO_END = 10  # seconds from the fault to the end of the job
ENDED = r"^meshwork supervise: mpirun (failed|was ended).*; starts it again in"


def rank_processes(of):
    """By rank, of those that mpirun with a parent of this number has started."""
    found = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/environ", "rb") as file:
                environment = file.read()
        except OSError:
            continue
        rank = re.search(rb"(?:^|\0)OMPI_COMM_WORLD_RANK=(\d+)\0", environment)
        if rank and b"MESHWORK_FAULTS=%d\0" % of in environment:
            found[int(rank.group(1))] = int(name)
    return found


class MpiTries:
    def __init__(self, bin, work, expected):
        self.program, self.tool = programs_in(bin)
        self.work, self.expected = work, expected
        self.count = 0

    def run(self, kind, number, rng):
        result = Result(kind, number, os.path.join(self.work, f"{kind}-{number}"), policy="supervise")
        os.makedirs(result.dir)
        checkpoints, losses = os.path.join(result.dir, "checkpoints"), os.path.join(result.dir, "losses.json")
        self.count += 1
        command = [self.tool, "supervise", "--backoff", "200ms", "--", "mpirun", "-n", str(SIZE), "--oversubscribe",
                   "--bind-to", "none", self.program] + TRAINING + [
                       "--deadline", str(DEADLINE), "--checkpoint-dir", checkpoints, "--resume", "--json", losses]
        environment = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                       "MESHWORK_FAULTS": str(os.getpid() * 1000 + self.count)}
        with open(os.path.join(result.dir, "log"), "w", buffering=1) as log:
            program = Program("supervise", command, environment, log)
            try:
                self.disturb(program, result, rng, checkpoints, int(environment["MESHWORK_FAULTS"]))
                while program.ended is None and time.monotonic() < program.started + MOST_SECONDS:
                    time.sleep(0.01)
                if program.ended is None:
                    result.faults.append(f"it did not end within {MOST_SECONDS} s")
                result.wall = time.monotonic() - program.started
                left = rank_processes(int(environment["MESHWORK_FAULTS"]))
                if left:
                    result.faults.append(f"ranks {sorted(left)} are left behind")
                for process in left.values():
                    os.kill(process, signal.SIGKILL)
            finally:
                program.end()
                program.reader.join(timeout=5)
        self.judge(program, result, checkpoints, losses)
        return result

    def disturb(self, program, result, rng, checkpoints, mark):
        step = rng.randrange(EVERY, STEPS * 3 // 4)
        while newest_step_in(checkpoints) < step and program.ended is None:
            time.sleep(0.002)
        time.sleep(rng.uniform(0, 0.1))
        self.rank, self.number = rng.randrange(SIZE), rng.choice([signal.SIGKILL, signal.SIGSTOP])
        result.at = f"step {newest_step_in(checkpoints)}"
        result.what = f"{self.number.name} of rank {self.rank}"
        ranks = rank_processes(mark)
        self.fault_at = time.monotonic()
        if self.rank in ranks:
            os.kill(ranks[self.rank], self.number)
        else:
            result.faults.append("it ended before it was disturbed")

    def judge(self, program, result, checkpoints, losses):
        if program.process.returncode != 0:
            result.faults.append(f"supervise ended with {program.process.returncode}")
        ended = program.find(ENDED, self.fault_at)
        # Of a process that was killed, mpirun says so; one that says nothing is named by those that wait for it.
        names = r"process rank {0} ".format(self.rank) if self.number == signal.SIGKILL else r"domains? [0-9, ]*\b{0}\b.* did not come".format(self.rank)
        named = program.find(names, self.fault_at)
        if ended is None:
            result.faults.append("supervise did not start it again")
        else:
            result.found = ended[0] - self.fault_at
            result.generations = 2
            if result.found > MOST_TO_END:
                result.faults.append(f"it ended after {result.found:.1f} s")
            result.ends.append(f"mpirun: {ended[1].split(': ', 1)[1].split(';')[0]}")
        if named is None:
            result.faults.append(f"nobody named rank {self.rank}")
        else:
            result.ends.append(f"named: {named[1][:110]}")
        if not os.path.exists(losses):
            result.faults.append("the chief has not finished")
        else:
            result.faults += faults_of_losses(*read_losses(losses), self.expected)
        result.faults += faults_of_checkpoints(checkpoints, STEPS)
