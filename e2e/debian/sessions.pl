# Sessions of an application with Perl's driver. What it does stands in run.
use v5.14;
use warnings;
use MongoDB;
use Time::HiRes qw(sleep);
use Try::Tiny;

sub must {
	my ($ok, $what) = @_;
	die "not so: $what\n" unless $ok;
}

my $client = MongoDB->connect($ENV{MAYFLY_URI});
my $sessions = $client->ns('e2e_perl.sessions');
my $now = time;
my @documents = map {
	my $at = $_ < 200 ? BSON::Time->new($now - 3600) : $_ < 250 ? BSON::Time->new($now + 3600) : 'no date';
	{ _id => $_, at => $at }
} 0 .. 250;
must($sessions->insert_many(\@documents)->inserted_count == 251, '251 documents are inserted');
must($sessions->find({}, { batchSize => 50 })->all == 251, 'find sees 251 documents');
$sessions->update_one({ _id => 0 }, { '$inc' => { seen => 1 } });
must($sessions->find_one({ seen => 1 })->{_id} == 0, 'the update is seen');
my $refused = try { $sessions->insert_one({ _id => 0 }); '' } catch { ref $_ };
must($refused eq 'MongoDB::DuplicateKeyError', "a second _id 0 is refused as a duplicate key: $refused");

$sessions->indexes->create_one([at => 1], { expireAfterSeconds => 1 });
my ($index) = grep { $_->{name} eq 'at_1' } $sessions->indexes->list->all;
must($index->{expireAfterSeconds} == 1, 'the index is a TTL index');
for (1 .. 200) {
	last if $sessions->count_documents({}) <= 51;
	sleep 0.1;
}
my @left = map { $_->{_id} } $sessions->find({}, { sort => [_id => 1] })->all;
must("@left" eq "@{[200 .. 250]}", 'the 200 documents that are due leave, the 51 others stay');
