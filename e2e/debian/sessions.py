"""Sessions of an application with MongoEngine. What it does stands in run."""
import datetime
import os
import time

import mongoengine


class Session(mongoengine.Document):
    id = mongoengine.IntField(primary_key=True)
    at = mongoengine.DynamicField()
    seen = mongoengine.IntField()
    # Without auto_create_index the index is made below, when all documents have been seen.
    meta = {"collection": "sessions", "auto_create_index": False, "indexes": [{"fields": ["at"], "expireAfterSeconds": 1}]}


def must(ok, what):
    if not ok:
        raise SystemExit("not so: " + what)


mongoengine.connect("e2e_mongoengine", host=os.environ["MAYFLY_URI"], authentication_source="admin")
now = datetime.datetime.utcnow()
hour = datetime.timedelta(hours=1)
Session.objects.insert([Session(id=i, at=now - hour if i < 200 else now + hour if i < 250 else "no date") for i in range(251)])
must(len(list(Session.objects.batch_size(50))) == 251, "find sees 251 documents")
Session.objects(id=0).update_one(inc__seen=1)
must(Session.objects.get(seen=1).id == 0, "the update is seen")
try:
    Session(id=0).save(force_insert=True)
    must(False, "a second _id 0 is refused")
except mongoengine.errors.NotUniqueError:
    pass

Session.ensure_indexes()
must(Session._get_collection().index_information()["at_1"]["expireAfterSeconds"] == 1, "the index is a TTL index")
deadline = time.monotonic() + 20
while Session.objects.count() > 51 and time.monotonic() < deadline:
    time.sleep(0.1)
must([s.id for s in Session.objects.order_by("id")] == list(range(200, 251)), "the 200 documents that are due leave, the 51 others stay")
