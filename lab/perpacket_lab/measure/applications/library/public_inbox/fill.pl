# Fills the archive with threads of up to 13 messages: perl fill.pl THREADS. The same seed makes the
# same archive.
use strict;
use warnings;
use PublicInbox::Config;
use PublicInbox::Eml;
use PublicInbox::V2Writable;

my $threads = shift;
my $inbox = PublicInbox::Config->new->lookup_name('archive');
my $writer = PublicInbox::V2Writable->new($inbox, { nproc => 1 });
my @vocabulary = qw(packet server cost layer driver interrupt copy checksum socket disk cache page);
srand 1;

sub text { join ' ', map { $vocabulary[rand @vocabulary] } 1 .. shift }

sub message {
    my ($thread, $position, $subject, $parent) = @_;
    my $id = "m$thread.$position\@example.com";
    my @reply = $parent ? ("In-Reply-To: <$parent>", "References: <$parent>") : ();
    my $date = sprintf 'Sun, %02d Nov 2020 %02d:%02d:00 +0000',
        1 + $thread % 28, $thread % 24, $position;
    my @body = map { text(12) } 1 .. 15;
    my $text = join "\n",
        "From: Reader $position <reader$position\@example.com>", 'To: archive@example.com',
        'Subject: ' . ($position ? 'Re: ' : '') . $subject, "Message-ID: <$id>", @reply,
        "Date: $date", '', @body, '';
    $writer->add(PublicInbox::Eml->new($text));
    return $id;
}

for my $thread (1 .. $threads) {
    my $subject = "topic$thread packet " . text(5);
    my @ids;
    for my $position (0 .. int rand 13) {
        push @ids, message($thread, $position, $subject, @ids ? $ids[rand @ids] : undef);
    }
}
$writer->done;
