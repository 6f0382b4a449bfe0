<?php
// Sessions of an application with PHP's extension. What it does stands in run.
use MongoDB\BSON\UTCDateTime;
use MongoDB\Driver\{BulkWrite, Command, Manager, Query};
use MongoDB\Driver\Exception\BulkWriteException;

function must(bool $ok, string $what): void
{
    if (!$ok) {
        throw new Exception("not so: $what");
    }
}

function find(Manager $manager, array $filter, array $options = []): array
{
    return $manager->executeQuery('e2e_php.sessions', new Query($filter, $options))->toArray();
}

$manager = new Manager(getenv('MAYFLY_URI'));
$now = (int) (microtime(true) * 1000);
$bulk = new BulkWrite();
for ($i = 0; $i <= 250; $i++) {
    $at = $i < 200 ? new UTCDateTime($now - 3600000) : ($i < 250 ? new UTCDateTime($now + 3600000) : 'no date');
    $bulk->insert(['_id' => $i, 'at' => $at]);
}
must($manager->executeBulkWrite('e2e_php.sessions', $bulk)->getInsertedCount() === 251, '251 documents are inserted');
must(count(find($manager, [], ['batchSize' => 50])) === 251, 'find sees 251 documents');

$bulk = new BulkWrite();
$bulk->update(['_id' => 0], ['$inc' => ['seen' => 1]]);
$manager->executeBulkWrite('e2e_php.sessions', $bulk);
must(find($manager, ['seen' => 1])[0]->_id === 0, 'the update is seen');
$code = 0;
try {
    $bulk = new BulkWrite();
    $bulk->insert(['_id' => 0]);
    $manager->executeBulkWrite('e2e_php.sessions', $bulk);
} catch (BulkWriteException $e) {
    $code = $e->getWriteResult()->getWriteErrors()[0]->getCode();
}
must($code === 11000, 'a second _id 0 is refused with 11000');

$manager->executeWriteCommand('e2e_php', new Command([
    'createIndexes' => 'sessions',
    'indexes' => [['key' => ['at' => 1], 'name' => 'at_1', 'expireAfterSeconds' => 1]],
]));
for ($i = 0; $i < 200 && count(find($manager, [])) > 51; $i++) {
    usleep(100000);
}
$left = array_map(fn ($doc) => $doc->_id, find($manager, [], ['sort' => ['_id' => 1]]));
must($left === range(200, 250), 'the 200 documents that are due leave, the 51 others stay');
