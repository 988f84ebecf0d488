<?php
// Installs WordPress and fills it with posts and comments: php fill.php POSTS. The same seed makes
// the same posts; their numbers begin at 1001.
define('WP_INSTALLING', true);
$_SERVER['HTTP_HOST'] = '@address@:@web_port@';
require '@folder@/html/wp-load.php';
require ABSPATH . 'wp-admin/includes/upgrade.php';

$vocabulary = explode(' ', 'packet server cost layer driver interrupt copy checksum socket disk cache page');
mt_srand(1);

function words(int $count): string
{
    global $vocabulary;
    $chosen = [];
    while (count($chosen) < $count) {
        $chosen[] = $vocabulary[mt_rand(0, count($vocabulary) - 1)];
    }
    return implode(' ', $chosen);
}

wp_install('Packets', 'admin', 'admin@example.com', true, '', 'admin');
wp_defer_comment_counting(true);
for ($number = 1001; $number <= 1000 + (int) $argv[1]; $number++) {
    $post = wp_insert_post([
        'import_id' => $number,
        'post_title' => "topic$number " . words(5),
        'post_content' => '<p>' . implode('</p><p>', [words(80), words(80), words(80)]) . '</p>',
        'post_status' => 'publish',
        'post_author' => 1,
        'comment_status' => 'open',
        'post_date' => gmdate('Y-m-d H:i:s', 1600000000 + 3600 * $number),
    ]);
    for ($left = mt_rand(0, 8); $left > 0; $left--) {
        wp_insert_comment([
            'comment_post_ID' => $post,
            'comment_author' => words(1),
            'comment_content' => words(40),
            'comment_approved' => 1,
        ]);
    }
}
wp_defer_comment_counting(false);
