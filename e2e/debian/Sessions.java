import com.mongodb.MongoClient;
import com.mongodb.MongoClientURI;
import com.mongodb.MongoWriteException;
import com.mongodb.client.MongoCollection;
import com.mongodb.client.model.Filters;
import com.mongodb.client.model.IndexOptions;
import com.mongodb.client.model.Indexes;
import com.mongodb.client.model.Sorts;
import com.mongodb.client.model.Updates;
import java.util.ArrayList;
import java.util.Date;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.bson.Document;

/** Sessions of an application with Java's driver. What it does stands in run. */
public class Sessions {
    private static void must(boolean ok, String what) {
        if (!ok) {
            throw new IllegalStateException("not so: " + what);
        }
    }

    public static void main(String[] args) throws InterruptedException {
        try (MongoClient client = new MongoClient(new MongoClientURI(System.getenv("MAYFLY_URI")))) {
            MongoCollection<Document> sessions = client.getDatabase("e2e_java").getCollection("sessions");
            documents(sessions);
            expiry(sessions);
        }
    }

    private static void documents(MongoCollection<Document> sessions) {
        long now = System.currentTimeMillis();
        List<Document> documents = new ArrayList<>();
        for (int i = 0; i <= 250; i++) {
            Object at = i < 200 ? new Date(now - 3_600_000) : i < 250 ? new Date(now + 3_600_000) : "no date";
            documents.add(new Document("_id", i).append("at", at));
        }
        sessions.insertMany(documents);
        must(sessions.find().batchSize(50).into(new ArrayList<>()).size() == 251, "find sees 251 documents");
        sessions.updateOne(Filters.eq("_id", 0), Updates.inc("seen", 1));
        must(sessions.find(Filters.eq("seen", 1)).first().getInteger("_id") == 0, "the update is seen");
        int code = 0;
        try {
            sessions.insertOne(new Document("_id", 0));
        } catch (MongoWriteException e) {
            code = e.getError().getCode();
        }
        must(code == 11000, "a second _id 0 is refused with 11000");
    }

    private static void expiry(MongoCollection<Document> sessions) throws InterruptedException {
        sessions.createIndex(Indexes.ascending("at"), new IndexOptions().expireAfter(1L, TimeUnit.SECONDS));
        for (int i = 0; i < 200 && sessions.count() > 51; i++) {
            Thread.sleep(100);
        }
        List<Integer> left = sessions.find().sort(Sorts.ascending("_id")).into(new ArrayList<>()).stream()
            .map(d -> d.getInteger("_id")).collect(Collectors.toList());
        must(left.equals(IntStream.rangeClosed(200, 250).boxed().collect(Collectors.toList())),
            "the 200 documents that are due leave, the 51 others stay");
    }
}
