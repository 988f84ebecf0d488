<?php
define('DB_NAME', 'application');
define('DB_USER', 'application');
define('DB_PASSWORD', 'application');
define('DB_HOST', '127.0.0.1:@database_port@');
define('DB_CHARSET', 'utf8mb4');
define('DB_COLLATE', '');
// Nobody logs in from outside, so the keys of cookies need no secret.
foreach (['AUTH', 'SECURE_AUTH', 'LOGGED_IN', 'NONCE'] as $use) {
    define("{$use}_KEY", "key of $use");
    define("{$use}_SALT", "salt of $use");
}
define('WP_SITEURL', 'http://@address@:@web_port@');
define('WP_HOME', 'http://@address@:@web_port@');
// No request leaves the machine, and none does work that belongs to no page.
define('WP_HTTP_BLOCK_EXTERNAL', true);
define('DISABLE_WP_CRON', true);
define('AUTOMATIC_UPDATER_DISABLED', true);
$table_prefix = 'wp_';
if (!defined('ABSPATH')) {
    define('ABSPATH', __DIR__ . '/');
}
require_once ABSPATH . 'wp-settings.php';
