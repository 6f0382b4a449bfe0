"""Lines that `logger` says reach MongoDB collections through rsyslog and syslog-ng, and leave by a TTL index. The audit log
reaches rsyslog."""
import datetime
import glob
import json
import os
import socket
import subprocess
import tempfile
import time
import unittest

import pymongo

DAEMONS = os.environ["DAEMONS"]

RSYSLOG = """
global(workDirectory="{dir}")
module(load="imuxsock" SysSock.Use="off")
module(load="ommongodb")
input(type="imuxsock" Socket="{dir}/log")
action(type="ommongodb" uristr="{uri}" db="{db}" collection="lines")
"""

AUDITED = """
global(workDirectory="{dir}")
module(load="imuxsock" SysSock.Use="off")
input(type="imuxsock" Socket="{dir}/log")
template(name="audited" type="string" string="%programname% %syslogfacility-text% %msg%\\n")
action(type="omfile" file="{dir}/audited" template="audited")
"""

SYSLOG_NG = """
@version: 3.38
source s_log {{ unix-dgram("{dir}/log"); }};
destination d_mongodb {{
    mongodb(
        uri("{uri}{db}?authSource=admin")
        collection("lines")
        value-pairs(pair("time", datetime("$UNIXTIME")) pair("sys", "$HOST") pair("tag", "$PROGRAM") pair("msg", "$MESSAGE"))
    );
}};
log {{ source(s_log); destination(d_mongodb); }};
"""


def until(what, condition):
    """Waits at most 20 seconds for condition."""
    deadline = time.monotonic() + 20
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError("waited in vain until " + what)
        time.sleep(0.05)


class Syslog(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(dir=os.environ["WORK"])
        self.client = pymongo.MongoClient(os.environ["MAYFLY_URI"])
        self.addCleanup(self.client.close)

    def start(self, config, db, command, **env):
        """Starts a daemon on a socket of its own, and ends it with the test."""
        path = os.path.join(self.dir, "conf")
        with open(path, "w") as f:
            f.write(config.format(dir=self.dir, uri=os.environ["MAYFLY_URI"], db=db))
        log = open(os.path.join(self.dir, "output"), "w")
        self.addCleanup(log.close)
        # It ends with this process, whatever ends that.
        command = ["setpriv", "--pdeathsig", "TERM"] + [arg.format(dir=self.dir) for arg in command]
        daemon = subprocess.Popen(command, env={**os.environ, **env}, stdout=log, stderr=subprocess.STDOUT)
        self.addCleanup(daemon.wait)
        self.addCleanup(daemon.terminate)
        self.addCleanup(self.show, log.name)
        until("the daemon listens", lambda: daemon.poll() is not None or os.path.exists(self.dir + "/log"))
        self.assertIsNone(daemon.poll(), "the daemon has ended")

    def show(self, output):
        """What the daemon printed, for who reads of a failure; run prints it only then."""
        with open(output) as f:
            print(f.read())

    def lines_leave(self, db):
        lines = self.client[db].lines
        lines.create_index("time", expireAfterSeconds=3600)
        for i in range(20):
            subprocess.run(["logger", "--socket", self.dir + "/log", "--tag", "mayfly", "line %d" % i], check=True)
        until("20 lines are there", lambda: lines.count_documents({"msg": {"$regex": "line"}}) == 20)
        before = datetime.datetime.utcnow() - datetime.timedelta(minutes=5)
        self.assertEqual(lines.count_documents({"time": {"$gte": before}}), 20, lines.find_one())
        lines.insert_one({"_id": "another's", "time": datetime.datetime.utcnow() + datetime.timedelta(hours=1)})
        self.client[db].command("collMod", "lines", index={"keyPattern": {"time": 1}, "expireAfterSeconds": 1})
        until("the lines are gone", lambda: [line["_id"] for line in lines.find()] == ["another's"])

    def test_rsyslog(self):
        usr = DAEMONS + "/rsyslog/usr"
        modules = os.path.dirname(glob.glob(usr + "/lib/*/rsyslog/ommongodb.so")[0])
        self.start(RSYSLOG, "e2e_rsyslog", [usr + "/sbin/rsyslogd", "-n", "-M", modules, "-f", "{dir}/conf", "-i", "{dir}/pid"])
        self.lines_leave("e2e_rsyslog")

    def test_syslog_ng(self):
        usr = DAEMONS + "/syslog-ng-core/usr"
        modules = glob.glob(usr + "/lib/syslog-ng/*/libafmongodb.so")[0]
        self.start(SYSLOG_NG, "e2e_syslog_ng", [
            usr + "/sbin/syslog-ng", "--foreground", "--no-caps", "--module-path", os.path.dirname(modules), "--cfgfile", "{dir}/conf",
            "--persist-file", "{dir}/persist", "--pidfile", "{dir}/pid", "--control", "{dir}/control",
        ], LD_LIBRARY_PATH=usr + "/lib/syslog-ng")
        self.lines_leave("e2e_syslog_ng")

    def test_audit(self):
        usr = DAEMONS + "/rsyslog/usr"
        modules = os.path.dirname(glob.glob(usr + "/lib/*/rsyslog/ommongodb.so")[0])
        self.start(AUDITED, "", [usr + "/sbin/rsyslogd", "-n", "-M", modules, "-f", "{dir}/conf", "-i", "{dir}/pid"])
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        # Where the server runs, /run has nothing but the socket of the system's log, under a name that it looks for.
        command = "mount -t tmpfs tmpfs /run && ln -s %s/log /run/log && exec %s serve --dbpath %s --port %d --nounixsocket --auditDestination syslog" % (
            self.dir, os.path.abspath("../../bin/mayfly"), tempfile.mkdtemp(dir=self.dir), port)
        server = subprocess.Popen(["setpriv", "--pdeathsig", "TERM", "unshare", "--mount", "sh", "-c", command], stdout=subprocess.DEVNULL)
        self.addCleanup(server.wait)
        self.addCleanup(server.terminate)
        with pymongo.MongoClient("127.0.0.1", port) as client:
            client.d.create_collection("audited", validator={"a": {"$type": "string"}})
            client.drop_database("d")

        def events():
            if not os.path.exists(self.dir + "/audited"):
                return []
            with open(self.dir + "/audited") as f:
                return [json.loads(line.removeprefix("mayfly authpriv ")) for line in f.read().splitlines()]

        until("the events are there", lambda: [e["atype"] for e in events()] == ["startup", "createCollection", "dropDatabase"])
        self.assertEqual(events()[1]["param"]["ns"], "d.audited")
        self.assertEqual(events()[1]["remote"]["ip"], "127.0.0.1")


if __name__ == "__main__":
    unittest.main()
