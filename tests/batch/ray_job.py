"""A job of Ray with a worker that has a GPU. Writes what Ray says about it to a file, and waits for another one."""

import json
import os
import sys
import time

import ray

directory = sys.argv[1]
ray.init(num_cpus=2, num_gpus=2, include_dashboard=False, _temp_dir=os.path.join(directory, "ray"))


@ray.remote(num_gpus=1)
class Worker:
    def describe(self):
        context = ray.get_runtime_context()
        gpus = [int(gpu) for gpu in context.get_accelerator_ids()["GPU"]]
        return {"pid": os.getpid(), "gpus": gpus, "job": context.get_job_id()}


# With an environment of its own, as most jobs have, a worker is started for the job.
worker = Worker.options(runtime_env={"env_vars": {"PHASEMETER_TEST": "1"}}).remote()
described = os.path.join(directory, "worker.json")
with open(described + ".new", "w") as file:
    json.dump(ray.get(worker.describe.remote()), file)
os.rename(described + ".new", described)
while not os.path.exists(os.path.join(directory, "done")):
    time.sleep(0.1)
ray.shutdown()
