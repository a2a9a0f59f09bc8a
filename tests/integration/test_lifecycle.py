"""Stopping, waking and destroying sandboxes of provider local through the queue."""

import contextlib
import os
import signal
import subprocess
import unittest

from support import PROJECT, IntegrationTest, attach_job, deploy_job, processes_below, wait_until

START_EXECUTION = os.path.join(PROJECT, "tests", "fixtures", "start-execution")


def lifecycle_job(job_id, op, sandbox="box", **more):
    return {"id": job_id, "op": op, "sandbox": {"provider": "local", "id": sandbox}, **more}


class Lifecycle(IntegrationTest):
    def setUp(self):
        super().setUp()
        self.box = os.path.join(self.root, "box")
        self.mark = os.path.join(self.box, ".attachd-stopped")

    def tearDown(self):
        for pid in processes_below(self.root):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        super().tearDown()

    def ask(self, job):
        self.enqueue(job)
        return self.wait_reply(job["id"])

    def look(self, job_id, op, **more):
        return self.ask(attach_job(job_id, **{"op": op, "read": None, "execution_id": "e1", **more}))

    def deploy(self):
        """A running execution, started by attachd: what bears the mark."""
        os.mkdir(self.box)
        self.start_worker(local=True)
        reply = self.ask(deploy_job("d1"))
        self.assertTrue(reply.ok, reply.body)
        self.assertTrue(processes_below(self.box))

    def assert_refused(self, code, reply):
        self.assertFalse(reply.ok, reply.body)
        self.assertEqual(code, reply.code, reply.body)

    def test_a_stopped_sandbox_runs_nothing_and_says_so(self):
        self.deploy()
        reply = self.ask(lifecycle_job("s1", "stop"))
        self.assertTrue(reply.ok, reply.body)
        self.assertEqual({"state": "stopped"}, reply.result)
        self.assertEqual([], processes_below(self.root))
        stopped = {"state": "provider_unavailable", "provider_state": "stopped"}
        self.assertEqual(stopped, self.look("t1", "status").result["status"])
        self.assertEqual(stopped, self.look("a1", "attach").result["status"])
        self.assertEqual(
            "stopped", self.ask(lifecycle_job("i1", "info")).result["provider_state"]
        )
        self.assert_refused("sandbox_stopped", self.look("r1", "read_output"))
        self.assert_refused("sandbox_stopped", self.look("c1", "cancel"))
        self.assert_refused("sandbox_stopped", self.ask(deploy_job("d2", execution="e2")))
        # Once more changes nothing.
        self.assertEqual({"state": "stopped"}, self.ask(lifecycle_job("s2", "stop")).result)
        self.assertTrue(os.path.exists(self.mark))
        self.stop_workers()
        self.assert_queue_is_empty()

    def test_attach_wakes_a_stopped_sandbox_only_where_it_may(self):
        self.deploy()
        self.assertTrue(self.ask(lifecycle_job("s1", "stop")).ok)
        self.assertEqual(
            "provider_unavailable", self.look("a1", "attach").result["status"]["state"]
        )
        self.assertTrue(os.path.exists(self.mark))
        reply = self.look("a2", "attach", wake=True, read={"stdout": 0})
        self.assertTrue(reply.ok, reply.body)
        self.assertFalse(os.path.exists(self.mark))
        # Woken, not begun again: the execution that was ended stays so, its output is there.
        self.assertNotIn(
            reply.result["status"]["state"], ("running", "starting", "provider_unavailable")
        )
        self.assertEqual(b"hello  \n", reply.result["output"]["stdout"]["data"])
        self.assertEqual([], processes_below(self.root))
        self.assertTrue(self.ask(deploy_job("d2", execution="e2")).ok)
        self.stop_workers()
        self.assert_queue_is_empty()

    def test_waking_and_stopping_what_is_not_there_creates_nothing(self):
        self.start_worker(local=True)
        self.assert_refused("sandbox_not_found", self.look("a1", "attach", wake=True))
        self.assert_refused("sandbox_not_found", self.look("t1", "status", wake=True))
        self.assert_refused("sandbox_not_found", self.ask(lifecycle_job("s1", "stop")))
        self.assertEqual([], os.listdir(self.root))
        self.stop_workers()
        self.assert_queue_is_empty()

    def test_a_destroyed_sandbox_is_gone_with_all_that_ran_in_it(self):
        self.deploy()
        reply = self.ask(lifecycle_job("x1", "destroy"))
        self.assertTrue(reply.ok, reply.body)
        self.assertEqual({"state": "destroyed", "attempts": 1}, reply.result)
        self.assertEqual([], os.listdir(self.root))
        self.assertEqual([], processes_below(self.root))
        self.assert_refused("sandbox_not_found", self.look("t1", "status"))
        self.assert_refused("sandbox_not_found", self.look("a1", "attach", wake=True))
        # Once more does no harm.
        reply = self.ask(lifecycle_job("x2", "destroy"))
        self.assertEqual({"state": "destroyed", "attempts": 1}, reply.result)
        self.assertEqual([], os.listdir(self.root))
        self.stop_workers()
        self.assert_queue_is_empty()

    def test_a_stopped_sandbox_can_be_destroyed(self):
        self.deploy()
        self.assertTrue(self.ask(lifecycle_job("s1", "stop")).ok)
        reply = self.ask(lifecycle_job("x1", "destroy"))
        self.assertEqual({"state": "destroyed", "attempts": 1}, reply.result)
        self.assertEqual([], os.listdir(self.root))
        self.stop_workers()

    def test_attempts_are_counted_and_used_up(self):
        """A mount point cannot be taken away, whoever asks."""
        os.mkdir(self.box)
        mounted = subprocess.run(
            ["mount", "-t", "tmpfs", "none", self.box], stderr=subprocess.DEVNULL, check=False
        )
        if mounted.returncode != 0:
            self.skipTest("mounting is not allowed here")
        try:
            self.start_worker(local=True)
            reply = self.ask(lifecycle_job("x1", "destroy", attempts=4, delay_ms=1))
            self.assertTrue(reply.ok, reply.body)
            self.assertEqual(("exhausted", 4), (reply.result["state"], reply.result["attempts"]))
            self.assertIn("cannot be taken away", reply.result["message"])
            reply = self.ask(lifecycle_job("x2", "destroy", delay_ms=0))
            self.assertEqual(("exhausted", 3), (reply.result["state"], reply.result["attempts"]))
            self.assertTrue(os.path.isdir(self.box))
        finally:
            subprocess.run(["umount", self.box], check=True)
        # Mended, and asked again: a failure is remembered for nobody.
        reply = self.ask(lifecycle_job("x3", "destroy"))
        self.assertEqual({"state": "destroyed", "attempts": 1}, reply.result)
        self.assertEqual([], os.listdir(self.root))
        self.stop_workers()
        self.assert_queue_is_empty()

    def test_a_program_that_ignores_term_is_stopped_all_the_same(self):
        os.mkdir(self.box)
        self.start_worker(local=True)
        script = b"#!/bin/sh\ntrap '' TERM\ntouch deaf\nwhile :; do sleep 600; done\n"
        self.assertTrue(self.ask(deploy_job("d1", files={"run.sh": (0o755, script)})).ok)
        deaf = os.path.join(self.box, "mastra-app", "deaf")
        wait_until(lambda: os.path.exists(deaf), "TERM is ignored")
        self.assertEqual({"state": "stopped"}, self.ask(lifecycle_job("s1", "stop")).result)
        self.assertEqual([], processes_below(self.root))
        self.stop_workers()


if __name__ == "__main__":
    unittest.main(verbosity=2)
