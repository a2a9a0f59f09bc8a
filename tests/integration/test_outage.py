"""Redis goes away, stands still, forgets everything or refuses: the worker goes on by itself,
quietly, and no reply is lost or doubled."""

import threading
import time
import unittest

import redis

from support import (
    GROUP,
    IntegrationTest,
    attach_job,
    capability_job,
    cpu_seconds,
    info_job,
    wait_until,
)

A_FEW_LINES = 12


class Outage(IntegrationTest):
    lease_ms = 5000

    def test_a_worker_started_before_redis_waits_for_it(self):
        self.server.kill()
        worker = self.launch_worker()
        worker.wait_text("not connected to Redis")
        self.server.start()
        worker.wait_ready()
        self.enqueue(capability_job("j1"))
        self.wait_reply("j1")

    def test_a_redis_that_stands_still_is_noticed_by_the_workers_own_deadline_ST_18(self):
        worker = self.start_worker()
        self.enqueue(capability_job("j1"))
        self.wait_reply("j1")
        self.server.pause()
        line = worker.wait_line(msg="not connected to Redis, trying on")
        self.assertIn("in time", line["why"])
        self.server.resume()
        worker.wait_line(msg="connected to Redis again")
        self.enqueue(capability_job("j2"))
        self.wait_reply("j2")
        self.stop_workers()
        self.assert_answered_once(["j1", "j2"])
        self.assert_queue_is_empty()

    def test_redis_restarted_empty_under_a_running_worker_gets_its_group_again_ST_10(self):
        worker = self.start_worker()
        self.enqueue(capability_job("j1"))
        self.wait_reply("j1")
        self.server.kill()
        self.server.start()
        self.enqueue(capability_job("j2"))
        self.wait_reply("j2")
        worker.wait_text("connected to Redis again")
        self.assertLess(len(worker.log.lines), A_FEW_LINES + 4)
        self.stop_workers()
        self.assert_answered_once(["j2"])
        self.assert_queue_is_empty()

    def assert_goes_on_quietly(self, forget):
        """After forget() the group is there again soon, and neither log nor CPU ran away."""
        worker = self.start_worker()
        self.enqueue(capability_job("before"))
        self.wait_reply("before")
        lines_before, cpu_before = len(worker.log.lines), cpu_seconds(worker.pid)
        began = time.monotonic()
        forget()
        wait_until(
            lambda: self.client.exists(self.key("jobs"))
            and self.client.xinfo_groups(self.key("jobs")),
            "the group is there again",
            deadline_s=10,
        )
        self.enqueue(capability_job("after"))
        self.wait_reply("after")
        took = time.monotonic() - began
        self.assertLess(len(worker.log.lines) - lines_before, A_FEW_LINES)
        # A loop without a pause burns all of the time; AddressSanitizer alone does not.
        self.assertLess(cpu_seconds(worker.pid) - cpu_before, max(1.0, 0.5 * took))
        return worker

    def test_after_FLUSHALL_the_group_is_made_again_and_later_jobs_run_ST_09_ST_10(self):
        self.assert_goes_on_quietly(self.client.flushall)
        self.stop_workers()
        self.assert_answered_once(["after"])
        self.assert_queue_is_empty()

    def test_after_the_stream_is_deleted_under_a_blocked_reader_later_jobs_run_ST_14_ST_41(self):
        self.assert_goes_on_quietly(lambda: self.client.delete(self.key("jobs")))
        self.stop_workers()
        self.assert_answered_once(["before", "after"])
        self.assert_queue_is_empty()

    def test_jobs_queued_in_the_same_step_as_FLUSHALL_run_ST_09(self):
        self.start_worker()
        with self.client.pipeline(transaction=True) as pipe:
            pipe.flushall()
            for i in range(5):
                pipe.xadd(self.key("jobs"), {"job": self.packed(capability_job(f"j{i}"))})
            pipe.execute()
        self.wait_replies(5)
        self.stop_workers()
        self.assert_answered_once([f"j{i}" for i in range(5)])
        self.assert_queue_is_empty()

    def test_a_group_destroyed_reruns_no_finished_job_and_drops_no_queued_one_ST_13(self):
        self.start_worker()
        for i in range(5):
            self.enqueue(info_job(f"finished{i}"))
        self.wait_replies(5)
        wait_until(lambda: self.client.xlen(self.key("jobs")) == 0, "all are finished")
        with self.client.pipeline(transaction=True) as pipe:
            pipe.xgroup_destroy(self.key("jobs"), GROUP)
            for i in range(5):
                pipe.xadd(self.key("jobs"), {"job": self.packed(info_job(f"queued{i}"))})
            pipe.execute()
        self.wait_replies(10)
        self.stop_workers()
        self.assert_answered_once(
            [f"finished{i}" for i in range(5)] + [f"queued{i}" for i in range(5)]
        )
        self.assert_queue_is_empty()

    def test_a_group_destroyed_while_a_job_runs_gives_it_one_reply_ST_13(self):
        self.make_sandbox()
        self.gate.close()
        self.start_worker(local=True)
        self.enqueue(attach_job("j1"))
        self.gate.wait_reached()
        self.client.xgroup_destroy(self.key("jobs"), GROUP)
        self.gate.wait_reached()  # delivered again from the new group, which starts at 0
        self.gate.open()
        self.wait_reply("j1")
        self.stop_workers()
        self.assert_answered_once(["j1"])
        self.assert_queue_is_empty()

    def test_scripts_flushed_under_load_are_sent_again(self):
        self.start_worker()
        self.start_worker()
        stop = threading.Event()

        def flush():
            client = self.server.connect()
            while not stop.is_set():
                client.script_flush("SYNC")
            client.close()

        flusher = threading.Thread(target=flush)
        flusher.start()
        try:
            jobs = [f"j{i}" for i in range(300)]
            for job in jobs:
                self.enqueue(capability_job(job))
            self.wait_replies(300)
        finally:
            stop.set()
            flusher.join()
        self.stop_workers()
        self.assert_answered_once(jobs)
        self.assert_queue_is_empty()

    def test_a_full_redis_still_lets_jobs_be_finished_ST_56(self):
        self.make_sandbox()
        self.gate.close()
        self.start_worker(local=True)
        self.enqueue(attach_job("j1"))
        self.gate.wait_reached()
        self.client.config_set("maxmemory", 1)
        with self.assertRaises(redis.ResponseError) as refused:
            self.enqueue(capability_job("j2"))
        self.assertIn("OOM", type(refused.exception).__name__ + str(refused.exception).upper())
        self.gate.open()
        self.wait_reply("j1")
        self.stop_workers()
        self.assert_answered_once(["j1"])
        self.assert_queue_is_empty()


class Restart(IntegrationTest):
    append_only = True
    lease_ms = 5000

    def test_a_killed_redis_comes_back_with_its_log_and_no_reply_is_lost_or_doubled(self):
        worker = self.start_worker()
        jobs = [f"j{i}" for i in range(200)]
        sent = []
        for job in jobs[:100]:
            self.enqueue(capability_job(job))
            sent.append(job)
        self.server.kill()
        worker.wait_text("not connected to Redis")
        self.server.start()
        for job in jobs[100:]:
            self.enqueue(capability_job(job))
            sent.append(job)
        self.wait_replies(len(sent))
        worker.wait_text("connected to Redis again")
        self.stop_workers()
        self.assert_answered_once(sent)
        self.assert_queue_is_empty()

    def test_a_job_that_ran_while_redis_was_killed_is_answered_once(self):
        self.make_sandbox()
        self.gate.close()
        worker = self.start_worker(local=True, lease_ms=60_000)
        self.enqueue(attach_job("j1"))
        self.gate.wait_reached()
        self.server.kill()
        self.gate.open()  # it ends while there is nobody to tell
        worker.wait_text("not connected to Redis")
        self.server.start()
        reply = self.wait_reply("j1")
        self.assertEqual(1, reply.body["deliveries"])
        self.stop_workers()
        self.assert_answered_once(["j1"])
        self.assert_queue_is_empty()

    def test_redis_killed_again_and_again_under_load_loses_nothing(self):
        workers = [self.start_worker(), self.start_worker()]
        jobs = []
        for turn in range(3):
            for i in range(60):
                job = f"t{turn}-{i}"
                self.enqueue(info_job(job))
                jobs.append(job)
            self.server.kill()
            self.server.start()
        self.wait_replies(len(jobs))
        self.stop_workers()
        self.assert_answered_once(jobs)
        self.assert_queue_is_empty()
        for worker in workers:
            self.assertLess(len([line for line in worker.log.lines if "msg=job" not in line]), 60)


class Password(IntegrationTest):
    with_port = True
    redis_arguments = ("--requirepass", "correct horse")
    SECRET = "correct%20horse"

    def setUp(self):
        super().setUp()
        self.server.client.close()
        self.server.client = self.server.connect(password="correct horse")

    def url(self, password):
        return f"redis://:{password}@127.0.0.1:{self.server.port}/0"

    def assert_no_log_holds(self, *secrets):
        for worker in self.workers:
            for line in worker.log.lines:
                for secret in secrets:
                    self.assertNotIn(secret, line)

    def test_a_tcp_url_with_a_password_works_and_the_password_is_in_no_log(self):
        worker = self.start_worker(redis_url=self.url(self.SECRET), log_level="debug")
        self.enqueue(capability_job("j1"))
        self.wait_reply("j1")
        self.client.client_kill_filter(_type="normal", skipme=True)
        worker.wait_text("connected to Redis again")
        self.enqueue(capability_job("j2"))
        self.wait_reply("j2")
        worker.signal(10)  # SIGUSR1
        worker.wait_line(msg="tasks")
        self.stop_workers()
        self.assert_no_log_holds("correct horse", self.SECRET)
        self.assert_queue_is_empty()

    def test_a_wrong_password_is_said_clearly_and_mended_without_a_restart(self):
        worker = self.launch_worker(redis_url=self.url("battery%20staple"))
        line = worker.wait_line(msg="not connected to Redis, trying on")
        self.assertIn("WRONGPASS", line["why"])
        self.client.execute_command("ACL", "SETUSER", "default", ">battery staple")
        worker.wait_ready()
        self.enqueue(capability_job("j1"))
        self.wait_reply("j1")
        self.stop_workers()
        self.assert_no_log_holds("battery staple", "battery%20staple", "correct horse")
        self.assertLess(len(worker.log.lines), A_FEW_LINES)

    def test_no_password_where_one_is_needed_is_said_clearly(self):
        worker = self.launch_worker(redis_url=f"redis://127.0.0.1:{self.server.port}")
        worker.wait_text("NOAUTH")
        self.client.execute_command("ACL", "SETUSER", "default", "nopass")
        worker.wait_ready()

    def test_a_user_without_the_right_to_read_says_so_and_goes_on_when_it_has_it(self):
        self.client.execute_command(
            *("ACL", "SETUSER", "attachd", "on", ">secret", "~*", "+@all", "-xreadgroup")
        )
        url = f"redis://attachd:secret@127.0.0.1:{self.server.port}"
        worker = self.start_worker(redis_url=url)
        worker.wait_text("NOPERM")
        self.enqueue(capability_job("j1"))
        self.client.execute_command("ACL", "SETUSER", "attachd", "+xreadgroup")
        self.wait_reply("j1")
        self.stop_workers()
        self.assert_queue_is_empty()

    def test_a_worker_whose_scripts_are_refused_keeps_the_job_and_answers_it_later(self):
        self.client.execute_command(
            *("ACL", "SETUSER", "attachd", "on", ">secret", "~*", "+@all", "-evalsha", "-eval")
        )
        url = f"redis://attachd:secret@127.0.0.1:{self.server.port}"
        worker = self.start_worker(redis_url=url, lease_ms=120_000)
        self.enqueue(capability_job("j1"))
        wait_until(lambda: len(self.pending(worker.consumer)) == 1, "the job is held")
        self.client.execute_command("ACL", "SETUSER", "attachd", "+evalsha", "+eval")
        self.assertEqual(1, self.wait_reply("j1").body["deliveries"])
        self.stop_workers()
        self.assert_answered_once(["j1"])
        self.assert_queue_is_empty()

    def test_the_documented_rights_of_a_worker_are_enough(self):
        rights = (
            "+xreadgroup +xpending +xclaim +xrange +xadd +xack +xdel +xlen +evalsha +eval "
            "+script|load +get +set +zadd +zrange +zrem +hset +hget +hdel +time +xgroup|create "
            "+xgroup|createconsumer +xgroup|delconsumer +client|unblock +client|id "
            "+client|setname +info +role +ping +hello +auth"
        ).split()
        keys = f"~{self.key('*')}"
        self.client.execute_command(
            *("ACL", "SETUSER", "attachd", "on", ">secret", keys, "-@all", *rights)
        )
        url = f"redis://attachd:secret@127.0.0.1:{self.server.port}"
        self.start_worker(redis_url=url)
        self.enqueue(capability_job("j1"))
        self.enqueue(b"\xc1")
        self.wait_reply("j1")
        self.wait_letters(1)
        self.stop_workers()
        self.assert_queue_is_empty()
        refused = [line for line in self.workers[0].log.lines if "NOPERM" in line]
        self.assertEqual([], refused)


if __name__ == "__main__":
    unittest.main(verbosity=2)
