"""SIGTERM: no new jobs, what runs is finished or handed back, the consumer goes."""

import signal
import unittest

from support import IntegrationTest, attach_job, capability_job, wait_until


class Shutdown(IntegrationTest):
    def test_an_idle_worker_ends_at_once_with_0_and_leaves_the_group(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            worker = self.start_worker()
            self.assertIn(worker.consumer, self.consumers())
            worker.signal(number)
            # Well before the 2 s for which a read may block: it is woken.
            self.assertEqual(0, worker.wait(deadline_s=20))
            worker.wait_line(msg="stopped")
        self.assertEqual([], self.consumers())

    def test_a_stopping_worker_finishes_what_runs_and_takes_nothing_new(self):
        self.make_sandbox()
        self.gate.close()
        worker = self.start_worker(local=True, drain_ms=600_000)
        self.enqueue(attach_job("running"))
        self.gate.wait_reached()
        worker.signal(signal.SIGTERM)
        worker.wait_line(msg="draining", running=1)
        # A blocked read may still be given this one; then it comes back by itself.
        self.enqueue(capability_job("late"))
        self.gate.open()
        self.assertEqual(0, worker.wait())
        self.assert_answered_once(["running"])
        self.assertEqual(1, self.client.xlen(self.key("jobs")))
        self.assertEqual([], self.pending())
        self.assertEqual([], self.consumers())
        self.start_worker()
        self.wait_reply("late")
        self.stop_workers()
        self.assert_answered_once(["running", "late"])
        self.assert_queue_is_empty()

    def test_a_job_that_outlasts_the_drain_is_handed_back_and_answered_by_a_peer(self):
        self.make_sandbox()
        self.gate.close()
        # A lease far longer than the test: only the hand-back can bring the job over.
        first = self.start_worker(local=True, drain_ms=100, lease_ms=3_600_000)
        entry = self.enqueue(attach_job("j1"), source="billing")
        (pid,) = self.gate.wait_reached()
        second = self.start_worker(local=True, lease_ms=3_600_000)
        first.signal(signal.SIGTERM)
        first.wait_line(outcome="handed_back", entry=entry)
        self.assertEqual(0, first.wait())
        self.gate.wait_reached()
        self.assertEqual([second.consumer], self.consumers())
        ((_, fields),) = self.client.xrange(self.key("jobs"))
        self.assertEqual(entry.encode(), fields[b"origin"])
        self.assertEqual(entry.split("-")[0].encode(), fields[b"enqueued_ms"])
        self.assertEqual(b"billing", fields[b"source"])
        self.gate.open()
        reply = self.wait_reply("j1")
        self.assertTrue(reply.ok)
        self.assertEqual(second.consumer, reply.body["worker"])
        self.stop_workers()
        self.assert_answered_once(["j1"])
        self.assert_queue_is_empty()
        wait_until(lambda: not self.is_alive(pid), "the first worker's command has ended")

    @staticmethod
    def is_alive(pid):
        try:
            with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
                return file.read().rpartition(")")[2].split()[0] != "Z"
        except OSError:
            return False

    def test_a_second_signal_ends_it_at_once_and_the_job_is_recovered(self):
        self.make_sandbox()
        self.gate.close()
        worker = self.start_worker(local=True, drain_ms=3_600_000, lease_ms=2000)
        self.enqueue(attach_job("j1"))
        self.gate.wait_reached()
        worker.signal(signal.SIGTERM)
        worker.wait_line(msg="draining")
        worker.signal(signal.SIGTERM)
        self.assertEqual(1, worker.wait())
        self.assertEqual(1, len(self.pending(worker.consumer)))
        self.gate.open()
        self.start_worker(local=True, lease_ms=2000)
        self.assertEqual(2, self.wait_reply("j1").body["deliveries"])
        self.stop_workers()
        self.assert_answered_once(["j1"])
        self.assert_queue_is_empty()

    def test_a_worker_stopped_while_redis_is_away_ends_all_the_same(self):
        worker = self.start_worker()
        self.server.kill()
        worker.wait_text("not connected to Redis")
        worker.signal(signal.SIGTERM)
        self.assertEqual(0, worker.wait())

    def test_a_worker_stopped_while_it_cannot_tell_an_answer_ends_all_the_same(self):
        self.make_sandbox()
        self.gate.close()
        worker = self.start_worker(local=True, lease_ms=600_000, drain_ms=500)
        self.enqueue(attach_job("j1"))
        self.gate.wait_reached()
        self.server.kill()
        self.gate.open()  # it ends while there is nobody to tell
        worker.wait_text("not connected to Redis")
        worker.signal(signal.SIGTERM)
        self.assertEqual(0, worker.wait())
        self.server.start()

    def test_a_worker_stopped_before_it_ever_reached_redis_ends_all_the_same(self):
        self.server.kill()
        worker = self.launch_worker()
        worker.wait_text("not connected to Redis")
        worker.signal(signal.SIGTERM)
        self.assertEqual(0, worker.wait())

    def test_a_worker_stopped_while_redis_stands_still_ends_all_the_same(self):
        worker = self.start_worker()
        self.server.pause()
        worker.signal(signal.SIGTERM)
        self.assertEqual(0, worker.wait())
        self.server.resume()

    def test_workers_stopped_one_after_another_under_load_lose_nothing(self):
        jobs = [f"j{i}" for i in range(400)]
        workers = [self.start_worker(slots=4) for _ in range(3)]
        for i, job in enumerate(jobs):
            self.enqueue(capability_job(job))
            if i in (100, 200, 300):
                workers[i // 100 - 1].signal(signal.SIGTERM)
                workers.append(self.start_worker(slots=4))
        self.wait_replies(400)
        self.stop_workers()
        self.assert_answered_once(jobs)
        self.assert_queue_is_empty()
        self.assertEqual([], self.consumers())


if __name__ == "__main__":
    unittest.main(verbosity=2)
