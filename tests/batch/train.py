"""Work as torchrun starts it, whose second rank fails once. It exchanges nothing: after a failure the ranks of two nodes
can differ in TORCHELASTIC_RESTART_COUNT, with which PyTorch's default rendezvous of ranks hangs."""

import os
import socket
import sys
import time


def report(line):
    """Reports to Phasemeter, which meters this."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(os.environ["PHASEMETER_SOCKET"])
        connection.sendall((line + "\n").encode())


has_failed = os.path.join(sys.argv[1], "has-failed")
# In the first attempt one rank fails after four seconds, and its launcher ends the others; the second one takes five.
is_first = not os.path.exists(has_failed)
for step in range(300 if is_first else 5):
    time.sleep(1)
    if step == 1 and "--checkpoints" in sys.argv:
        report("checkpoint")
    if step == 3 and is_first and os.environ["RANK"] == "1":
        open(has_failed, "w").close()
        sys.exit(17)
