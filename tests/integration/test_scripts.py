#!/usr/bin/python3
"""The Lua scripts of queue/lua, as they are embedded, one by one against a real redis-server."""
import os
import pathlib
import subprocess
import tempfile
import time
import unittest

import msgpack
import redis

BUILD = pathlib.Path(os.environ["ATTACHD_BUILD_DIR"])
JOBS, REPLIES, DONE, DEAD = (f"attachd:{{s}}:{name}" for name in ("jobs", "replies", "done:j", "dead"))
PROGRESS = "attachd:{s}:progress:j"
GROUP = "workers"


class Scripts(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.TemporaryDirectory(prefix="attachd-scripts-")
        path = os.path.join(cls.directory.name, "redis.sock")
        cls.server = subprocess.Popen(
            ["redis-server", "--port", "0", "--unixsocket", path, "--save", "", "--dir",
             cls.directory.name], stdout=subprocess.DEVNULL)
        cls.redis = redis.Redis(unix_socket_path=path)
        deadline = time.monotonic() + 20
        while True:
            try:
                cls.redis.ping()
                break
            except redis.ConnectionError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.01)
        cls.scripts = {
            file.name.removeprefix("lua_").removesuffix(".c.text"):
                cls.redis.register_script(file.read_text())
            for file in (BUILD / "queue").glob("lua_*.c.text")}

    @classmethod
    def tearDownClass(cls):
        cls.redis.close()
        cls.server.kill()
        cls.server.wait()
        cls.directory.cleanup()

    def setUp(self):
        self.redis.flushall()
        self.redis.xgroup_create(JOBS, GROUP, "0", mkstream=True)

    def add(self, **fields):
        return self.redis.xadd(JOBS, fields or {"job": "body"})

    def read(self, consumer, count=1):
        found = self.redis.xreadgroup(GROUP, consumer, {JOBS: ">"}, count=count)
        return [entry for entry, _ in found[0][1]]

    def finish(self, consumer, entry, token, ok=1, reply="r", head="", value=""):
        return self.scripts["finish"](keys=[JOBS, REPLIES, DONE], args=[
            GROUP, consumer, entry, token, 100, 3600000, "j", ok, reply, head, value])

    def bury(self, consumer, entry, token, reply="r", job_id="j", fields=("reason", "malformed")):
        return self.scripts["dead_letter"](keys=[JOBS, DEAD, REPLIES, DONE], args=[
            GROUP, consumer, entry, token, 100, 100, 3600000, job_id, reply, *fields])

    def claim(self, consumer, entry, count):
        self.redis.xclaim(JOBS, GROUP, consumer, 0, [entry], retrycount=count, justid=True)

    def pending(self):
        return self.redis.xpending_range(JOBS, GROUP, "-", "+", 100)

    def assert_queue_is_empty(self):
        self.assertEqual(self.redis.xlen(JOBS), 0)
        self.assertEqual(self.pending(), [])

    # ---- finish

    def test_finish_replies_and_takes_the_entry_off(self):
        self.add()
        (entry,) = self.read("a")
        self.assertEqual(self.finish("a", entry, 1), 1)
        self.assert_queue_is_empty()
        ((_, fields),) = self.redis.xrange(REPLIES)
        self.assertEqual(fields, {b"id": b"j", b"ok": b"1", b"reply": b"r"})
        self.assertGreater(self.redis.pttl(DONE), 3500000)

    def test_finish_sent_again_after_a_lost_answer_is_2_and_replies_once(self):
        self.add()
        (entry,) = self.read("a")
        self.assertEqual(self.finish("a", entry, 1), 1)
        self.assertEqual(self.finish("a", entry, 1), 2)
        self.assertEqual(self.redis.xlen(REPLIES), 1)

    def test_finish_by_another_worker_is_0_and_changes_nothing(self):
        self.add()
        (entry,) = self.read("a")
        self.assertEqual(self.finish("b", entry, 1), 0)
        self.assertEqual(self.redis.xlen(REPLIES), 0)
        self.assertEqual(len(self.pending()), 1)

    def test_finish_with_a_stale_delivery_count_is_0(self):
        self.add()
        (entry,) = self.read("a")
        self.claim("a", entry, 2)
        self.assertEqual(self.finish("a", entry, 1), 0)
        self.assertEqual(self.finish("a", entry, 2), 1)

    def test_a_stale_finish_after_the_others_finish_is_0_not_2(self):
        self.add()
        (entry,) = self.read("a")
        self.claim("b", entry, 2)
        self.assertEqual(self.finish("b", entry, 2), 1)
        self.assertEqual(self.finish("a", entry, 1), 0)
        self.assertEqual(self.redis.xlen(REPLIES), 1)

    def end(self, **finish):
        """A whole delivery; the record it leaves, parted at its first line."""
        entry = self.add()
        self.read("a")
        self.assertEqual(self.finish("a", entry, 1, **finish), 1)
        self.assertEqual(self.finish("a", entry, 1, **finish), 2)
        mark, _, outcome = self.redis.get(DONE).partition(b"\n")
        return mark, outcome

    def test_an_outcome_is_kept_behind_the_mark(self):
        mark, outcome = self.end(head="deploy 1", value=b"\x81\xa1a\n\0")
        self.assertEqual(b"deploy 1\n\x81\xa1a\n\0", outcome)
        self.assertTrue(mark.endswith(b":1:1"), mark)

    def test_the_first_outcome_of_an_operation_stays(self):
        self.end(head="deploy 1", value=b"\0first")
        for later in ({"ok": 0}, {"head": "deploy 0", "value": "second", "ok": 0}):
            self.redis.pexpire(DONE, 1000)
            mark, outcome = self.end(**later)
            self.assertEqual(b"deploy 1\n\0first", outcome)
            self.assertTrue(mark.endswith(b":1:0"), mark)
            self.assertGreater(self.redis.pttl(DONE), 3500000)
        self.add()
        (entry,) = self.read("a")
        self.assertEqual(self.bury("a", entry, 1), 1)
        self.assertEqual(self.bury("a", entry, 1), 2)
        self.assertTrue(self.redis.get(DONE).endswith(b"\ndeploy 1\n\0first"))
        self.assertEqual(b"cancel 1\nthird", self.end(head="cancel 1", value="third")[1])

    def test_a_record_that_is_none_is_written_over(self):
        for foreign in (b"", b"text\ndeploy 1\nx", b"d:"):
            self.redis.set(DONE, foreign)
            self.assertEqual(b"", self.end()[1])
        self.redis.delete(DONE)
        self.redis.rpush(DONE, "a list")
        self.assertEqual(b"deploy 1\nx", self.end(head="deploy 1", value="x")[1])

    def test_a_record_of_a_longer_token_is_not_taken_for_a_shorter_one(self):
        self.add()
        (entry,) = self.read("a")
        self.claim("a", entry, 12)
        self.assertEqual(self.finish("a", entry, 12), 1)
        self.assertEqual(self.finish("a", entry, 1), 0)

    def test_a_reply_key_of_another_type_leaves_the_entry_pending(self):
        self.redis.set(REPLIES, "a string")
        self.add()
        (entry,) = self.read("a")
        with self.assertRaisesRegex(redis.ResponseError, "WRONGTYPE"):
            self.finish("a", entry, 1)
        self.assertEqual(len(self.pending()), 1)
        self.assertEqual(self.redis.xlen(JOBS), 1)

    def test_finish_is_allowed_when_redis_is_out_of_memory(self):
        self.add()
        (entry,) = self.read("a")
        self.redis.config_set("maxmemory", 1)
        try:
            with self.assertRaisesRegex(redis.ResponseError, "OOM|command not allowed"):
                self.add()
            self.assertEqual(self.finish("a", entry, 1), 1)
        finally:
            self.redis.config_set("maxmemory", 0)

    # ---- renew

    def renew(self, consumer, *pairs):
        return self.scripts["renew"](keys=[JOBS], args=[GROUP, consumer, *pairs])

    def test_renew_resets_the_idle_time_and_keeps_the_count(self):
        self.add()
        (entry,) = self.read("a")
        self.redis.xclaim(JOBS, GROUP, "a", 0, [entry], idle=50000, justid=True)
        self.assertEqual(self.renew("a", entry, 1), [1])
        (row,) = self.pending()
        self.assertLess(row["time_since_delivered"], 5000)
        self.assertEqual(row["times_delivered"], 1)

    def test_a_stale_renew_does_not_take_the_entry_back(self):
        self.add()
        (entry,) = self.read("a")
        self.claim("b", entry, 2)
        self.assertEqual(self.renew("a", entry, 1), [0])
        self.assertEqual(self.pending()[0]["consumer"], b"b")

    def test_renew_answers_each_pair_in_order(self):
        self.add(), self.add(), self.add()
        first, second, third = self.read("a", 3)
        self.redis.xack(JOBS, GROUP, second)
        self.claim("b", third, 2)
        self.assertEqual(self.renew("a", first, 1, second, 1, third, 1), [1, 0, 0])

    def test_renewing_a_deleted_entry_is_0_and_drops_its_row(self):
        self.add()
        (entry,) = self.read("a")
        self.redis.xdel(JOBS, entry)
        self.assertEqual(self.renew("a", entry, 1), [0])
        self.assertEqual(self.pending(), [])

    # ---- reap

    def reap(self, consumer="b", lease=0, batch=16, hopeless=6):
        return self.scripts["reap"](keys=[JOBS, DEAD], args=[GROUP, consumer, lease, batch, hopeless, 100])

    def test_reap_takes_over_with_one_delivery_more(self):
        self.add(job="body", extra="x")
        (entry,) = self.read("a")
        ((got, token, _, owner, fields),) = self.reap()
        self.assertEqual((got, token, owner), (entry, 2, b"a"))
        self.assertEqual(fields, [b"job", b"body", b"extra", b"x"])
        (row,) = self.pending()
        self.assertEqual((row["consumer"], row["times_delivered"]), (b"b", 2))

    def test_reap_leaves_what_is_not_idle_for_a_lease(self):
        self.add()
        self.read("a")
        self.assertEqual(self.reap(lease=60000), [])

    def test_st_06_an_entry_without_a_body_becomes_a_stub_at_first_sight(self):
        self.add()
        (entry,) = self.read("a")
        self.redis.xdel(JOBS, entry)
        ((got, token, _, _, reason),) = self.reap()
        self.assertEqual((got, token, reason), (entry, 0, b"entry_missing"))
        ((_, letter),) = self.redis.xrange(DEAD)
        self.assertEqual((letter[b"reason"], letter[b"entry"], letter[b"owner"]),
                         (b"entry_missing", entry, b"a"))
        self.assertEqual(self.pending(), [])
        self.assertEqual(self.reap(), [])

    def test_an_entry_that_kills_even_its_buriers_is_buried_unseen(self):
        self.add(job=b"\xc1\x00", other="o")
        (entry,) = self.read("a")
        self.claim("a", entry, 6)
        ((_, token, _, _, reason),) = self.reap(hopeless=6)
        self.assertEqual((token, reason), (0, b"crash_loop"))
        ((_, letter),) = self.redis.xrange(DEAD)
        self.assertEqual((letter[b"job"], letter[b"other"], letter[b"deliveries"]),
                         (b"\xc1\x00", b"o", b"6"))
        self.assert_queue_is_empty()

    def test_st_23_every_entry_of_a_dead_consumer_is_taken_in_small_batches(self):
        for _ in range(10):
            self.add()
        held = self.read("a", 10)
        self.redis.xclaim(JOBS, GROUP, "a", 0, held, idle=100000, justid=True)
        taken = []
        while rows := self.reap(batch=3, lease=50000):
            self.assertLessEqual(len(rows), 3)
            taken += [row[0] for row in rows]
        self.assertEqual(taken, held)
        self.assertEqual(self.scripts["leave"](keys=[JOBS], args=[GROUP, "a"]), 1)

    def test_a_dead_letter_key_of_another_type_does_not_stop_recovery(self):
        self.redis.set(DEAD, "a string")
        self.add(), self.add()
        gone, good = self.read("a", 2)
        self.redis.xdel(JOBS, gone)
        rows = self.reap()
        self.assertEqual([(row[0], row[1]) for row in rows], [(gone, -1), (good, 2)])
        self.redis.delete(DEAD)
        self.assertEqual([row[1] for row in self.reap() if row[0] == gone], [0])

    # ---- dead letters

    def test_a_dead_letter_keeps_every_field_and_its_own_win(self):
        self.add(job=b"\x00\xff", reason="the producer's", note="kept")
        (entry,) = self.read("a")
        self.assertEqual(self.bury("a", entry, 1, fields=("reason", "malformed", "error", "e")), 1)
        ((_, letter),) = self.redis.xrange(DEAD)
        self.assertEqual(letter, {b"reason": b"malformed", b"error": b"e", b"job": b"\x00\xff",
                                  b"note": b"kept"})
        self.assertEqual(self.redis.xlen(REPLIES), 1)
        self.assert_queue_is_empty()

    def test_a_dead_letter_sent_again_is_2_and_one(self):
        self.add()
        (entry,) = self.read("a")
        self.assertEqual(self.bury("a", entry, 1), 1)
        self.assertEqual(self.bury("a", entry, 1), 2)
        self.assertEqual(self.redis.xlen(DEAD), 1)

    def test_a_dead_letter_is_fenced(self):
        self.add()
        (entry,) = self.read("a")
        self.claim("b", entry, 2)
        self.assertEqual(self.bury("a", entry, 1), 0)
        self.assertEqual(self.redis.xlen(DEAD), 0)

    def test_without_an_id_there_is_neither_reply_nor_record(self):
        self.add()
        (entry,) = self.read("a")
        self.assertEqual(self.bury("a", entry, 1, reply="", job_id=""), 1)
        self.assertEqual((self.redis.xlen(REPLIES), self.redis.exists(DONE)), (0, 0))

    def test_foreign_key_types_change_nothing(self):
        for key in (DEAD, REPLIES):
            with self.subTest(key=key):
                self.setUp()
                self.redis.set(key, "a string")
                self.add()
                (entry,) = self.read("a")
                with self.assertRaisesRegex(redis.ResponseError, "WRONGTYPE"):
                    self.bury("a", entry, 1)
                self.assertEqual(len(self.pending()), 1)
                for other in {DEAD, REPLIES} - {key}:
                    self.assertEqual(self.redis.exists(other), 0)

    def test_an_entry_with_more_fields_than_lua_can_unpack_is_buried_whole(self):
        many = {f"f{i}": str(i) for i in range(5000)}
        self.add(**many, job="body")
        (entry,) = self.read("a")
        self.assertEqual(self.bury("a", entry, 1), 1)
        ((_, letter),) = self.redis.xrange(DEAD)
        rest = msgpack.unpackb(letter.pop(b"more_fields"))
        self.assertEqual(letter[b"job"], b"body")
        kept = {**letter, **dict(zip(rest[::2], rest[1::2]))}
        self.assertLessEqual({k.encode(): v.encode() for k, v in many.items()}.items(),
                             {(k if isinstance(k, bytes) else k.encode()):
                              (v if isinstance(v, bytes) else v.encode())
                              for k, v in kept.items()}.items())
        self.assertEqual(self.redis.xlen(REPLIES), 1)
        self.assert_queue_is_empty()

    def test_such_an_entry_keeps_no_other_from_being_recovered(self):
        self.add(**{f"f{i}": str(i) for i in range(5000)})
        self.add()
        huge, good = self.read("a", 2)
        self.claim("a", huge, 6)
        rows = {row[0]: row[1] for row in self.reap(hopeless=6)}
        self.assertEqual(rows, {huge: 0, good: 2})
        self.assertEqual(self.redis.xlen(DEAD), 1)

    def test_rows_that_cannot_be_buried_do_not_hide_those_behind_them(self):
        self.redis.set(DEAD, "a string")
        for _ in range(40):
            self.add()
        held = self.read("a", 40)
        self.redis.xdel(JOBS, *held[:39])
        rows = {row[0]: row[1] for row in self.reap(batch=16)}
        self.assertEqual(rows[held[39]], 2)

    def test_an_entry_too_large_to_be_added_again_stays_pending_and_the_rest_goes_back(self):
        self.add(**{f"f{i}": str(i) for i in range(5000)})
        self.add()
        huge, good = self.read("a", 2)
        self.assertEqual(self.scripts["release"](keys=[JOBS], args=[GROUP, "a", huge, 1, good, 1]), 1)
        self.assertEqual([row["message_id"] for row in self.pending()], [huge])

    # ---- progress

    def progress(self, *fields, most=64, life=60000):
        return self.scripts["progress"](keys=[PROGRESS], args=[most, life, *fields])

    def test_progress_is_added_whole_bounded_and_for_a_while(self):
        self.assertEqual(self.progress("phase", "install", "line", b"\xff\x00 x"), 1)
        ((_, fields),) = self.redis.xrange(PROGRESS)
        self.assertEqual(fields, {b"phase": b"install", b"line": b"\xff\x00 x"})
        self.assertTrue(30000 < self.redis.pttl(PROGRESS) <= 60000)
        self.redis.pexpire(PROGRESS, 100)
        for _ in range(400):
            self.progress("phase", "install")
        self.assertTrue(30000 < self.redis.pttl(PROGRESS) <= 60000)
        self.assertLess(self.redis.xlen(PROGRESS), 200)

    def test_progress_in_the_way_of_another_key_changes_nothing(self):
        self.redis.set(PROGRESS, "a string")
        with self.assertRaisesRegex(redis.ResponseError, "WRONGTYPE"):
            self.progress("phase", "install")
        self.assertEqual(self.redis.pttl(PROGRESS), -1)

    def test_progress_is_refused_when_redis_is_out_of_memory(self):
        self.redis.config_set("maxmemory", 1)
        try:
            with self.assertRaisesRegex(redis.ResponseError, "OOM|command not allowed"):
                self.progress("phase", "install")
        finally:
            self.redis.config_set("maxmemory", 0)

    # ---- release and leave

    def test_release_adds_the_entry_anew_with_its_origin_and_time(self):
        self.add(job="body", attempt="3")
        (entry,) = self.read("a")
        self.assertEqual(self.scripts["release"](keys=[JOBS], args=[GROUP, "a", entry, 1]), 1)
        self.assertEqual(self.pending(), [])
        ((again, fields),) = self.redis.xrange(JOBS)
        self.assertNotEqual(again, entry)
        self.assertEqual(fields, {b"job": b"body", b"attempt": b"3", b"origin": entry,
                                  b"enqueued_ms": entry.split(b"-")[0]})
        (second,) = self.read("b")
        self.scripts["release"](keys=[JOBS], args=[GROUP, "b", second, 1])
        ((_, fields),) = self.redis.xrange(JOBS)
        self.assertEqual(fields[b"origin"], entry)

    def test_release_is_fenced(self):
        self.add()
        (entry,) = self.read("a")
        self.claim("b", entry, 2)
        self.assertEqual(self.scripts["release"](keys=[JOBS], args=[GROUP, "a", entry, 1]), 0)
        self.assertEqual(len(self.pending()), 1)

    def test_st_24_leaving_with_entries_held_is_refused(self):
        self.add()
        self.read("a")
        leave = self.scripts["leave"]
        self.assertEqual(leave(keys=[JOBS], args=[GROUP, "a"]), 0)
        self.assertEqual(len(self.pending()), 1)
        self.redis.xgroup_createconsumer(JOBS, GROUP, "idle")
        self.assertEqual(leave(keys=[JOBS], args=[GROUP, "idle"]), 1)


if __name__ == "__main__":
    unittest.main()
