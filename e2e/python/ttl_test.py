"""A session kept with pymongo goes when its time is over."""
import datetime
import os
import time
import unittest

import pymongo


class TTL(unittest.TestCase):
    def test_session_expires(self):
        c = pymongo.MongoClient(os.environ["MAYFLY_URI"]).e2e_python.sessions
        c.drop()
        c.create_index("at", expireAfterSeconds=1)
        now = datetime.datetime.now(datetime.timezone.utc)
        c.insert_many([{"_id": 1, "at": now}, {"_id": 2, "at": now + datetime.timedelta(hours=1)}, {"_id": 3, "at": "no date"}])
        deadline = time.monotonic() + 20
        while c.count_documents({}) > 2 and time.monotonic() < deadline:
            time.sleep(0.2)
        self.assertEqual([d["_id"] for d in c.find().sort("_id")], [2, 3])


if __name__ == "__main__":
    unittest.main()
