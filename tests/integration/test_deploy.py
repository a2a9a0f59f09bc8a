"""Deploy and relaunch through the queue, in sandboxes that are directories here."""

import contextlib
import os
import signal
import stat
import subprocess
import threading
import time

import unittest

from support import (
    DeployTest,
    attach_job,
    deploy_job,
    files_below,
    processes_below,
    targz,
    wait_until,
)

INSTALLS = {"package.json": b"{}", "run.sh": (0o755, b"#!/bin/sh\nexec sleep 600\n")}


class Deploy(DeployTest):
    def test_a_deploy_makes_a_running_execution_in_three_round_trips(self):
        self.start_worker(local=True)
        reply = self.deployed(
            args=["a b", "it's"],
            env={"GREETING": "hi 'you'"},
            input={"type": "stdin", "data": b"line\n"},
        )
        self.assertEqual("running", reply.result["status"]["state"])
        self.assertEqual(self.app, reply.result["remote_dir"])
        self.assertLessEqual(reply.body["execs"], 4)
        wait_until(lambda: self.read(".mastra/executions/e1/stdout"), "output")
        self.assertEqual(b"hello hi 'you' a b it's\n", self.read(".mastra/executions/e1/stdout"))
        modes = {
            name: stat.S_IMODE(os.lstat(os.path.join(self.execution(), name)).st_mode)
            for name in os.listdir(self.execution())
        }
        self.assertEqual(
            {
                "attachd": 0o644,
                "attachd.launcher": 0o644,
                "launch.sh": 0o700,
                "pid": 0o644,
                "pid-start": 0o644,
                "status": 0o644,
                "stderr": 0o644,
                "stdin": 0o600,
                "stdout": 0o644,
            },
            modes,
        )
        self.assertEqual(0o700, stat.S_IMODE(os.lstat(self.execution()).st_mode))
        self.assertEqual(b"running|e1\n", self.read(".mastra/executions/e1/status"))
        self.assert_nothing_left()

    def test_its_end_is_recorded_as_the_original_would(self):
        self.start_worker(local=True)
        self.deployed(files={"run.sh": (0o755, b"#!/bin/sh\nexit 3\n")})
        wait_until(
            lambda: self.read(".mastra/executions/e1/status") == b"exited|e1|3|\n", "the end"
        )
        wait_until(lambda: not os.path.exists(self.execution() + "/attachd.launcher"), "the end")
        self.assertEqual(
            ["attachd", "launch.sh", "status", "stderr", "stdout"],
            sorted(os.listdir(self.execution())),
        )

    def test_a_second_delivery_finds_it_launched_and_starts_nothing(self):
        self.start_worker(local=True)
        self.deployed()
        self.client.delete(self.key("done:d1"))  # as after the record's life
        self.enqueue(deploy_job("d1"))
        reply = self.wait_replies(2)[1]
        self.assertTrue(reply.ok, reply.body)
        self.assertEqual(1, len(self.read("starts").splitlines()))

    def test_a_second_entry_of_a_job_id_is_told_what_the_first_came_to(self):
        self.start_worker(local=True)
        first = self.deployed()
        self.enqueue(deploy_job("d1", execution="other"))
        again = self.wait_replies(2)[1]
        self.assertTrue(again.body["duplicate"])
        self.assertEqual(first.result, again.result)
        self.assertEqual(0, again.body["execs"])
        self.assertNotEqual(first.body["entry"], again.body["entry"])
        self.assertNotIn("duplicate", first.body)
        # So is a failure that is final, and one that is not runs again.
        bad = {"package.json": b"{}", "run.sh": (0o755, b"x")}
        job = deploy_job("d2", execution="e2", files=bad, install_command="false")
        one = self.run_job(job)
        self.enqueue(job)
        two = self.wait_replies(4)[3]
        self.assertEqual(one.error, two.error)
        self.assertTrue(two.body["duplicate"])
        self.assertFalse(os.path.exists(self.execution("other")))

    def test_an_id_that_is_somebody_elses_is_refused_before_any_upload(self):
        self.start_worker(local=True)
        self.deployed()

        def files():
            found = files_below(self.app)
            return {path: facts for path, facts in found.items() if not os.path.isdir(path)}

        before = files()
        error = self.refused("invalid_argument", deploy_job("d2"))
        self.assertEqual("execution_id", error["field"])
        self.assertEqual(before, files())
        # An execution of the original has no claim.
        os.mkdir(self.execution("m1"))
        for name, text in (("launch.sh", "x"), ("status", "exited|m1|0|\n")):
            with open(os.path.join(self.execution("m1"), name), "w", encoding="ascii") as file:
                file.write(text)
        self.refused("invalid_argument", deploy_job("d3", execution="m1"))

    def test_a_failed_deploy_does_not_burn_the_id(self):
        self.start_worker(local=True)
        bad = {"run.sh": (0o755, b"x"), "package.json": b"{}"}
        error = self.refused(
            "deploy_failed", deploy_job("d1", files=bad, install_command="echo no way; exit 7")
        )
        self.assertEqual("install", error["phase"])
        self.assertEqual(7, error["exit_code"])
        self.assertIn(
            "Worker install failed: Command failed inside sandbox (exit 7): "
            "install worker dependencies",
            error["message"],
        )
        self.assertIn("no way", error["detail"])
        status = self.run_job({**attach_job("a1"), "op": "status", "execution_id": "e1"})
        self.assertEqual("failed", status.result["status"]["state"])
        self.assertEqual("install", status.result["status"]["phase"])
        self.deployed("d2")
        self.assert_nothing_left()

    def test_a_failed_install_is_not_taken_for_done(self):
        self.start_worker(local=True)
        self.refused(
            "deploy_failed", deploy_job("d1", files=INSTALLS, install_command="cd . ; false")
        )
        self.assertFalse(os.path.exists(self.app + "/.mastra-install-hash"))
        command = "echo ran >>installs"
        self.deployed("d2", files=INSTALLS, install_command=command)
        self.deployed("d3", execution="e2", files=INSTALLS, install_command=command)
        self.assertEqual(b"ran\n", self.read("installs"))
        # The marker of the original is no proof: it is written after failures too.
        os.unlink(self.app + "/.mastra-install-hash.attachd")
        self.deployed("d4", execution="e3", files=INSTALLS, install_command=command)
        self.assertEqual(b"ran\nran\n", self.read("installs"))
        self.assertEqual(64, len(self.read(".mastra-install-hash")))

    def test_an_install_that_takes_too_long_is_ended_with_all_its_processes(self):
        self.start_worker(local=True)
        error = self.refused(
            "deploy_failed",
            deploy_job(
                "d1",
                files=INSTALLS,
                install_command="sleep 599 & sleep 598",
                install_timeout_ms=1000,
            ),
        )
        self.assertEqual("install", error["phase"])
        self.assertIn("install_timeout_ms", error["message"])
        wait_until(lambda: not processes_below(self.app), "the end of the install")
        self.assert_nothing_left()

    def test_what_cannot_start_says_so_at_once(self):
        self.start_worker(local=True)
        began = time.monotonic()
        error = self.refused("deploy_failed", deploy_job("d1", working_directory="nowhere"))
        self.assertEqual("launch", error["phase"])
        self.assertIn("Worker launch failed: The working directory cannot be entered",
                      error["message"])
        self.assertLess(time.monotonic() - began, 5)
        self.deployed("d2")

    def test_input_goes_to_a_file_below_the_artifact(self):
        self.start_worker(local=True)
        self.deployed(input={"type": "file", "path": "in.txt", "data": b"data"})
        self.assertEqual(b"data", self.read("in.txt"))
        self.assertEqual(0o600, stat.S_IMODE(os.lstat(self.app + "/in.txt").st_mode))
        error = self.refused(
            "deploy_failed",
            deploy_job("d2", "e2", input={"type": "file", "path": "no/in.txt", "data": b"x"}),
        )
        self.assertEqual("upload", error["phase"])
        self.deployed("d3", execution="e2")

    def test_empty_input_is_empty_input(self):
        self.start_worker(local=True)
        script = b"#!/bin/sh\nwc -c\n"
        self.deployed(
            files={"run.sh": (0o755, script)}, input={"type": "stdin", "data": b""}
        )
        wait_until(lambda: self.read(".mastra/executions/e1/stdout").strip() == b"0", "output")

    def test_progress_is_told_to_who_asked_for_it(self):
        self.start_worker(local=True)
        fifo = os.path.join(self.box, "go")
        os.mkfifo(fifo)
        install = f"echo one; echo 'two\033[2J'; read line <'{fifo}'"
        self.enqueue(deploy_job("d1", files=INSTALLS, install_command=install, progress=True))
        stream = self.key("progress:d1")

        def entries():
            return [fields for _, fields in self.client.xrange(stream)]

        wait_until(lambda: any(b"line" in fields for fields in entries()), "a line")
        self.assertIn(b"two\033[2J", [fields.get(b"line") for fields in entries()])
        with open(fifo, "w", encoding="ascii") as gate:
            gate.write("go\n")
        self.assertTrue(self.wait_reply("d1").ok)
        phases = [fields[b"phase"].decode() for fields in entries()]
        self.assertEqual(["upload", "install", "start"], list(dict.fromkeys(phases)))
        uploads = [fields for fields in entries() if fields[b"phase"] == b"upload"]
        self.assertEqual(uploads[-1][b"bytes"], uploads[-1][b"total_bytes"])
        self.deployed("d2", execution="e2")
        self.assertFalse(self.client.exists(self.key("progress:d2")))

    def test_values_of_the_environment_are_nowhere_to_be_seen(self):
        worker = self.start_worker(local=True)
        secret = "s3cret-value-of-the-test"
        seen = []
        done = threading.Event()

        def watch():
            while not done.is_set():
                for pid in os.listdir("/proc"):
                    if pid.isdigit():
                        with contextlib.suppress(OSError):
                            with open(f"/proc/{pid}/cmdline", "rb") as file:
                                line = file.read()
                            if secret.encode() in line:
                                seen.append(line)

        watcher = threading.Thread(target=watch)
        watcher.start()
        try:
            self.deployed(env={"TOKEN": secret})
            bad = deploy_job("d2", execution="e2", env={"TOKEN": secret}, command="./missing")
            reply = self.run_job(bad)
            again = self.run_job(deploy_job("d3", env={"TOKEN": secret}))
        finally:
            done.set()
            watcher.join()
        self.assertEqual([], seen)
        self.assertNotIn(secret, repr(reply.body) + repr(again.body))
        self.assertFalse(worker.has_line(secret))

    def test_harmful_archives_are_refused_by_name(self):
        self.start_worker(local=True)
        for name in ("../out", "/abs", ".mastra/executions/x", ".mastra-install-hash"):
            error = self.refused(
                "invalid_argument",
                deploy_job(f"d{abs(hash(name))}", artifact={"data": targz({name: b"x"})}),
            )
            self.assertIn(name, error["message"])
        self.assertEqual({}, files_below(self.box))

    def test_relaunch_runs_the_recorded_launch_again(self):
        first = self.start_worker(local=True)
        self.deployed(args=["one"], env={"GREETING": "hi"})
        first.stop()
        self.start_worker(local=True)
        job = {
            "v": 1,
            "id": "r1",
            "op": "relaunch",
            "sandbox": {"provider": "local", "id": "box"},
            "execution_id": "e2",
            "from_execution_id": "e1",
        }
        reply = self.run_job(job)
        self.assertTrue(reply.ok, reply.body)
        wait_until(lambda: self.read(".mastra/executions/e2/stdout"), "output")
        self.assertEqual(b"hello hi one\n", self.read(".mastra/executions/e2/stdout"))
        error = self.refused("invalid_argument", {**job, "id": "r2", "execution_id": "e1"})
        self.assertEqual("Relaunch requires a new executionId.", error["message"])
        self.refused(
            "invalid_argument",
            {**job, "id": "r3", "execution_id": "e3", "from_execution_id": "none"},
        )
        with_input = {"type": "stdin", "data": b"again\n"}
        reply = self.run_job({**job, "id": "r4", "execution_id": "e4", "input": with_input})
        self.assertTrue(reply.ok, reply.body)
        self.assertEqual(b"again\n", self.read(".mastra/executions/e4/stdin"))
        self.assertLessEqual(reply.body["execs"], 4)
        self.assert_nothing_left()

    def test_a_limit_that_is_passed_is_what_the_status_says(self):
        self.start_worker(local=True)
        script = b"#!/bin/sh\nwhile :; do :; done\n"
        self.deployed(
            files={"run.sh": (0o755, script)}, resource_limits={"cpu_time_seconds": 1}
        )
        wait_until(
            lambda: self.read(".mastra/executions/e1/status")
            == b"resource_exhausted|e1|cpu|1|SIGXCPU\n",
            "the end",
        )


class Locks(DeployTest):
    """Whoever else is at work in the sandbox."""

    def lock(self, name, owner=None, mode=0o755):
        path = os.path.join(self.app, name)
        os.makedirs(self.app, exist_ok=True)
        os.mkdir(path)
        os.chmod(path, mode)
        if owner:
            with open(os.path.join(path, "owner.1"), "w", encoding="ascii") as file:
                file.write(owner + "\n")
        return path

    @staticmethod
    def identity(pid, boot=None):
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            start = file.read().rpartition(")")[2].split()[19]
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return f"{pid} {start} {boot or file.read().strip()}"

    def test_a_lock_of_the_original_is_waited_for_and_its_end_noticed_at_once(self):
        self.start_worker(local=True)
        path = self.lock(".mastra-artifact-lock")
        self.enqueue(deploy_job("d1"))
        wait_until(lambda: os.path.exists(self.execution() + "/launch.sh"), "the wait")
        # Not taken over, however long it stands.
        until = time.monotonic() + 5
        wait_until(lambda: time.monotonic() > until, "five seconds")
        self.assertEqual([], self.replies())
        os.rmdir(path)
        began = time.monotonic()
        wait_until(lambda: os.path.exists(self.app + "/run.sh"), "the extraction")
        self.assertLess(time.monotonic() - began, 0.5)
        self.assertTrue(self.wait_reply("d1").ok)
        self.assert_nothing_left()

    def test_a_lock_of_a_live_owner_is_never_taken(self):
        self.start_worker(local=True)
        owner = subprocess.Popen(["sleep", "600"])
        self.own_pids.add(owner.pid)
        self.lock(".mastra-install-lock", self.identity(owner.pid), 0o711)
        self.enqueue(deploy_job("d1", files=INSTALLS, install_command="true"))
        wait_until(lambda: os.path.exists(self.app + "/run.sh"), "the wait")
        until = time.monotonic() + 6
        wait_until(lambda: time.monotonic() > until, "six seconds")
        self.assertEqual([], self.replies())
        owner.kill()
        owner.wait()
        self.assertTrue(self.wait_reply("d1").ok)
        self.assert_nothing_left()

    def test_locks_of_the_dead_are_taken_over_in_seconds(self):
        self.start_worker(local=True)
        dead = subprocess.Popen(["true"])
        identity = self.identity(dead.pid)
        dead.wait()
        for number, (name, owner) in enumerate(
            (
                (".mastra-artifact-lock", identity),
                (".mastra-install-lock", identity),
                (".mastra-artifact-lock", self.identity(os.getpid(), "another-boot")),
                (".mastra-artifact-lock", None),  # it died between making and naming
            )
        ):
            with self.subTest(name=name, owner=owner):
                self.lock(name, owner, 0o711)
                began = time.monotonic()
                self.deployed(
                    f"d{number}", execution=f"e{number}", files=INSTALLS, install_command="true"
                )
                self.assertLess(time.monotonic() - began, 10)
                self.assert_nothing_left()

    def test_a_lock_that_stays_ends_the_deploy_with_its_name(self):
        self.start_worker(local=True)
        path = self.lock(".mastra-artifact-lock")
        error = self.refused("deploy_failed", deploy_job("d1", install_timeout_ms=500))
        self.assertEqual("upload", error["phase"])
        self.assertTrue(error["retryable"])
        self.assertIn(".mastra-artifact-lock", error["remedy"])
        os.rmdir(path)
        self.deployed("d1-again", execution="e2")

    def test_what_cannot_be_locked_is_no_contention(self):
        self.start_worker(local=True)
        os.makedirs(self.app)
        with open(self.app + "/.mastra", "w", encoding="ascii"):
            pass
        began = time.monotonic()
        error = self.refused("deploy_failed", deploy_job("d1"))
        self.assertEqual("upload", error["phase"])
        self.assertIn("mkdir", error["detail"])
        self.assertLess(time.monotonic() - began, 5)

    def test_many_deploys_at_once_all_run(self):
        self.start_worker(local=True)
        for number in range(8):
            self.enqueue(
                deploy_job(
                    f"d{number}", f"e{number}", files=INSTALLS, install_command="echo i >>i"
                )
            )
        replies = self.wait_replies(8)
        self.assertEqual([True] * 8, [reply.ok for reply in replies])
        self.assertEqual(b"i\n", self.read("i"))
        self.assert_nothing_left()


class FullDisk(DeployTest):
    """A sandbox on a small file system of its own."""

    def setUp(self):
        super().setUp()
        mount = ["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", self.box]
        if subprocess.run(mount, stderr=subprocess.DEVNULL, check=False).returncode != 0:
            self.skipTest("a file system cannot be mounted here")
        self.addCleanup(subprocess.run, ["umount", "-l", self.box], check=False)

    def fill(self, leave):
        with open(self.box + "/ballast", "wb") as file:
            free = os.statvfs(self.box)
            file.write(b"x" * max(0, free.f_bavail * free.f_bsize - leave))

    def test_each_phase_fails_clearly_and_the_retry_works_once_there_is_room(self):
        self.start_worker(local=True)
        phases = set()
        noise = os.urandom(30000)
        files = {**INSTALLS, "noise": noise}
        for number, leave in enumerate(range(0, 140 * 1024, 8 * 1024)):
            self.fill(leave)
            job = deploy_job(
                f"d{number}", files=files, install_command="head -c 60000 /dev/zero >more"
            )
            reply = self.run_job(job)
            status = self.execution() + "/status"
            if os.path.exists(status):
                self.assertGreater(os.path.getsize(status), 0, "half a status")
            if reply.ok:
                break
            self.assertEqual("deploy_failed", reply.code, reply.body)
            self.assertIn("No space left", repr(reply.error), reply.body)
            phases.add(reply.error["phase"])
            self.assert_nothing_left()
        self.assertTrue(reply.ok, reply.body)
        self.assertLessEqual({"upload", "install"}, phases)
        os.unlink(self.box + "/ballast")
        for pid in processes_below(self.box):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.stop_workers()


if __name__ == "__main__":
    unittest.main()
