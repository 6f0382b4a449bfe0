"""What an application does with pymongo."""
import os
import unittest

import pymongo
from pymongo import InsertOne, ReturnDocument, UpdateOne, WriteConcern
from pymongo.errors import BulkWriteError, DuplicateKeyError, OperationFailure


class Driver(unittest.TestCase):
    def setUp(self):
        self.client = pymongo.MongoClient(os.environ["MAYFLY_URI"])
        self.addCleanup(self.client.close)
        self.db = self.client.e2e_pymongo
        self.client.drop_database("e2e_pymongo")

    def test_documents(self):
        c = self.db.things
        c.insert_many([{"_id": i, "n": i % 5} for i in range(500)])
        self.assertEqual(sum(1 for _ in c.find(batch_size=50)), 500)
        self.assertEqual(c.count_documents({"n": {"$gte": 3}}), 200)
        self.assertEqual(sorted(c.distinct("n")), [0, 1, 2, 3, 4])
        self.assertEqual(c.find_one_and_update({"_id": 1}, {"$inc": {"n": 10}}, return_document=ReturnDocument.AFTER)["n"], 11)
        self.assertEqual(c.replace_one({"_id": 1000}, {"x": 1}, upsert=True).upserted_id, 1000)
        self.assertEqual(c.delete_many({"n": 0}).deleted_count, 100)
        groups = {d["_id"]: d["k"] for d in c.aggregate([{"$group": {"_id": "$n", "k": {"$sum": 1}}}])}
        self.assertEqual(groups, {1: 99, 2: 100, 3: 100, 4: 100, 11: 1, None: 1})

    def test_errors(self):
        c = self.db.errors
        c.create_index("u", unique=True)
        c.insert_one({"_id": 1, "u": 1})
        with self.assertRaises(DuplicateKeyError) as e:
            c.insert_one({"u": 1})
        self.assertEqual(e.exception.details["keyPattern"], {"u": 1})
        with self.assertRaises(BulkWriteError) as e:
            c.bulk_write([InsertOne({"_id": 1}), InsertOne({"_id": 2, "u": 2}), UpdateOne({"_id": 2}, {"$set": {"u": 3}})], ordered=False)
        self.assertEqual((e.exception.details["nInserted"], e.exception.details["nModified"]), (1, 1))
        with self.assertRaises(OperationFailure) as e:
            self.db.command("nonsense")
        self.assertEqual(e.exception.code, 59)

    def test_sessions_and_concerns(self):
        with self.client.start_session(causal_consistency=False) as s:
            self.db.s.insert_one({"_id": 1}, session=s)
            self.assertEqual(self.db.s.find_one(session=s), {"_id": 1})
        self.db.get_collection("s", write_concern=WriteConcern(w="majority", j=True)).insert_one({"_id": 2})
        self.db.get_collection("s", write_concern=WriteConcern(w=0)).insert_one({"_id": 3})
        self.assertIn(self.db.s.estimated_document_count(), (2, 3))


if __name__ == "__main__":
    unittest.main()
