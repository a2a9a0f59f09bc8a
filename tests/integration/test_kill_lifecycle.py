"""A worker that is killed at any step of a stop or a destroy: another completes it and
answers, once."""

import os
import unittest

import test_kill
from support import deploy_job, files_below, processes_below


def lifecycle_job(job_id, op, sandbox):
    return {"id": job_id, "op": op, "sandbox": {"provider": "local", "id": sandbox}}


class KillLifecycle(test_kill.Kill):
    def each_kill(self, op, look):
        def job_of(step):
            sandbox = f"box{step}"
            os.mkdir(os.path.join(self.root, sandbox))
            self.finish(deploy_job(f"d{step}", sandbox=sandbox))
            self.assertTrue(processes_below(os.path.join(self.root, sandbox)))
            return lifecycle_job(f"j{step}", op, sandbox)

        try:
            self.each_step(op, job_of, look)
        finally:
            self.end_executions()

    def test_a_stop_ends_everything_wherever_its_worker_is_killed(self):
        def look(reply, job):
            box = os.path.join(self.root, job["sandbox"]["id"])
            self.assertEqual({"state": "stopped"}, reply.result)
            self.assertEqual([], processes_below(self.root))
            self.assertIn(os.path.join(box, ".attachd-stopped"), files_below(box))
            self.assertTrue(os.path.isdir(os.path.join(box, "mastra-app")))

        self.each_kill("stop", look)

    def test_a_destroy_leaves_nothing_wherever_its_worker_is_killed(self):
        def look(reply, _):
            self.assertEqual({"state": "destroyed", "attempts": 1}, reply.result)
            self.assertEqual([], processes_below(self.root))
            self.assertEqual([], os.listdir(self.root))

        self.each_kill("destroy", look)


def load_tests(loader, _tests, _pattern):
    """Only what is written here; what is inherited runs with test_kill.py."""
    own = [name for name in vars(KillLifecycle) if name.startswith(loader.testMethodPrefix)]
    return unittest.TestSuite(map(KillLifecycle, own))


if __name__ == "__main__":
    unittest.main()
