"""Reports work to `phasemeter run -- python report_work.py`. Without Phasemeter it reports nothing."""
import phasemeter


def train(epochs=2, steps=50, batch=512):
    for _ in range(epochs):
        for _ in range(steps):
            phasemeter.work(samples=batch, steps=1)
        phasemeter.work(epochs=1)
        phasemeter.checkpoint()  # After the state is saved.


train()
