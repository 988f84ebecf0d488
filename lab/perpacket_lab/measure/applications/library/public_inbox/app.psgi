# The archive's pages as a PSGI application.
use strict;
use warnings;
use Plack::Builder;
use PublicInbox::WWW;

my $pages = PublicInbox::WWW->new;
$pages->preload;
builder {
    enable 'Head';
    sub { $pages->call(@_) };
};
