/* Sessions of an application with libmongoc. What it does stands in run. */
#include <mongoc/mongoc.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static void must(bool ok, const char *what, const bson_error_t *error)
{
	if (ok)
		return;
	fprintf(stderr, "%s: %s\n", what, error ? error->message : "not so");
	exit(1);
}

static int64_t count(mongoc_collection_t *sessions, const bson_t *filter)
{
	bson_error_t error;
	int64_t n = mongoc_collection_count_documents(sessions, filter, NULL, NULL, NULL, &error);
	must(n >= 0, "count", &error);
	return n;
}

static void insert(mongoc_collection_t *sessions)
{
	mongoc_bulk_operation_t *bulk = mongoc_collection_create_bulk_operation_with_opts(sessions, NULL);
	int64_t now = (int64_t)time(NULL) * 1000;
	bson_error_t error;
	for (int i = 0; i <= 250; i++) {
		bson_t doc = BSON_INITIALIZER;
		BSON_APPEND_INT32(&doc, "_id", i);
		if (i < 200)
			BSON_APPEND_DATE_TIME(&doc, "at", now - 3600000);
		else if (i < 250)
			BSON_APPEND_DATE_TIME(&doc, "at", now + 3600000);
		else
			BSON_APPEND_UTF8(&doc, "at", "no date");
		must(mongoc_bulk_operation_insert_with_opts(bulk, &doc, NULL, &error), "insert into bulk", &error);
		bson_destroy(&doc);
	}
	must(mongoc_bulk_operation_execute(bulk, NULL, &error) != 0, "bulk", &error);
	mongoc_bulk_operation_destroy(bulk);
}

static void find(mongoc_collection_t *sessions)
{
	bson_t *all = bson_new(), *opts = BCON_NEW("batchSize", BCON_INT32(50));
	mongoc_cursor_t *cursor = mongoc_collection_find_with_opts(sessions, all, opts, NULL);
	const bson_t *doc;
	bson_error_t error;
	int n = 0;
	while (mongoc_cursor_next(cursor, &doc))
		n++;
	must(!mongoc_cursor_error(cursor, &error), "find", &error);
	must(n == 251, "find sees 251 documents", NULL);
	mongoc_cursor_destroy(cursor);
	bson_destroy(all);
	bson_destroy(opts);
}

static void write_again(mongoc_collection_t *sessions)
{
	bson_t *one = BCON_NEW("_id", BCON_INT32(0)), *change = BCON_NEW("$inc", "{", "seen", BCON_INT32(1), "}");
	bson_t *seen = BCON_NEW("seen", BCON_INT32(1));
	bson_error_t error;
	must(mongoc_collection_update_one(sessions, one, change, NULL, NULL, &error), "update", &error);
	must(count(sessions, seen) == 1, "the update is seen", NULL);
	must(!mongoc_collection_insert_one(sessions, one, NULL, NULL, &error), "a second _id 0 is refused", NULL);
	must(error.code == 11000, "its code is 11000", &error);
	bson_destroy(one);
	bson_destroy(change);
	bson_destroy(seen);
}

static void expire(mongoc_collection_t *sessions)
{
	bson_t *keys = BCON_NEW("at", BCON_INT32(1)), *all = bson_new();
	char *name = mongoc_collection_keys_to_index_string(keys);
	bson_t *create = BCON_NEW("createIndexes", BCON_UTF8(mongoc_collection_get_name(sessions)), "indexes", "[",
		"{", "key", BCON_DOCUMENT(keys), "name", BCON_UTF8(name), "expireAfterSeconds", BCON_INT32(1), "}", "]");
	bson_error_t error;
	must(mongoc_collection_write_command_with_opts(sessions, create, NULL, NULL, &error), "create index", &error);
	for (int i = 0; i < 200 && count(sessions, all) > 51; i++)
		usleep(100000);
	must(count(sessions, all) == 51, "200 of 251 documents leave", NULL);
	bson_t *left = BCON_NEW("_id", "{", "$gte", BCON_INT32(200), "}");
	must(count(sessions, left) == 51, "those that are not due stay", NULL);
	bson_free(name);
	bson_destroy(create);
	bson_destroy(left);
	bson_destroy(keys);
	bson_destroy(all);
}

int main(void)
{
	bson_error_t error;
	mongoc_init();
	mongoc_uri_t *uri = mongoc_uri_new_with_error(getenv("MAYFLY_URI"), &error);
	must(uri, "uri", &error);
	mongoc_client_t *client = mongoc_client_new_from_uri(uri);
	mongoc_collection_t *sessions = mongoc_client_get_collection(client, "e2e_libmongoc", "sessions");
	insert(sessions);
	find(sessions);
	write_again(sessions);
	expire(sessions);
	mongoc_collection_destroy(sessions);
	mongoc_client_destroy(client);
	mongoc_uri_destroy(uri);
	mongoc_cleanup();
}
