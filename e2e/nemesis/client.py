"""A Python client of the nemesis: increments the tallies until its standard input ends,
and prints each token that was acknowledged."""
import sys
import threading
import time

import pymongo
from pymongo.errors import PyMongoError

uri, prefix = sys.argv[1:]
client = pymongo.MongoClient(uri, heartbeatFrequencyMS=500, connectTimeoutMS=1000, serverSelectionTimeoutMS=8000, socketTimeoutMS=8000)
tallies = client.app.tallies
ended = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
n = 0
while not ended.is_set():
    n += 1
    token = f"{prefix}{n}"
    try:
        tallies.update_one({"_id": f"python-{n // 100}"}, {"$inc": {"n": 1}, "$push": {"by": token}}, upsert=True)
        print(token, flush=True)
    except PyMongoError as e:
        print(getattr(e, "code", None) or type(e).__name__, e, file=sys.stderr, flush=True)
    time.sleep(0.005)
client.close()
