"""Work as torchrun starts it, whose second rank fails once. It exchanges nothing: after a failure the ranks of two nodes
can differ in TORCHELASTIC_RESTART_COUNT, with which PyTorch's default rendezvous of ranks hangs."""

import ctypes
import os
import socket
import subprocess
import sys
import time


def report(line):
    """Reports to Phasemeter, which meters this."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(os.environ["PHASEMETER_SOCKET"])
        connection.sendall((line + "\n").encode())


def overwrite_variables():
    """Does to /proc/self/environ what setproctitle does."""
    with open("/proc/self/stat") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    begin, end = (int(field) for field in fields[47:49])
    ctypes.memset(begin, 0, end - begin)


def started(rank):
    return os.path.join(sys.argv[1], f"started-{rank}")


# Each rank has a first attempt, however late it is: the second rank fails when both have been in theirs for eight seconds,
# and its launcher ends the other one. The second attempt takes eight seconds.
rank = os.environ["RANK"]
is_first = not os.path.exists(started(rank))
open(started(rank), "w").close()
while not all(os.path.exists(started(rank)) for rank in "01"):
    time.sleep(0.1)
for step in range(600 if is_first and rank == "0" else 8):
    time.sleep(1)
    if step == 1 and "--checkpoints" in sys.argv:
        report("checkpoint")
    if step == 4:
        overwrite_variables()
        # It inherits what its parent had.
        subprocess.Popen(["sleep", "2"], env=dict(os.environ), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
if is_first and rank == "1":
    sys.exit(17)
