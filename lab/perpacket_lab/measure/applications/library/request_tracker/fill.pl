# Fills the tracker with 20 users and tickets with 2 to 4 answers each: perl fill.pl TICKETS.
use strict;
use warnings;
use lib '/usr/share/request-tracker5/lib';
use RT -init;
use MIME::Entity;

my $tickets = shift;
my @vocabulary = qw(packet server cost layer driver interrupt copy checksum socket disk cache page);
srand 1;

sub text { join ' ', map { $vocabulary[rand @vocabulary] } 1 .. shift }

sub checked {
    my ($id, $message) = @_;
    die $message || 'failed' if !$id;
    return $id;
}

my $system = RT->SystemUser;
my @users = map {
    my $user = RT::User->new($system);
    checked($user->Create(
        Name => "user$_", EmailAddress => "user$_\@example.com", Password => "password$_",
        Privileged => 1,
    ));
    $user;
} 1 .. 20;
my $group = RT::Group->new($system);
$group->LoadSystemInternalGroup('Privileged');
for my $right (qw(ShowTicket SeeQueue CreateTicket ReplyToTicket ModifyTicket OwnTicket)) {
    checked($group->PrincipalObj->GrantRight(Right => $right, Object => RT->System));
}
for my $number (1 .. $tickets) {
    my $ticket = RT::Ticket->new(RT::CurrentUser->new($users[rand @users]));
    my ($id, undef, $message) = $ticket->Create(
        Queue => 'General', Subject => "topic$number " . text(5),
        Requestor => $users[rand @users]->EmailAddress,
        MIMEObj => MIME::Entity->build(Type => 'text/plain', Data => [ text(80) ]),
    );
    checked($id, $message);
    checked($ticket->Correspond(Content => text(60))) for 1 .. 2 + int rand 3;
}
