/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A plugin of QEMU that counts blocks with an inline operation, as perpacket's plugin must not. */
#include <stddef.h>
#include <stdint.h>

struct scoreboard;
struct block;
struct entry {
    struct scoreboard *scoreboard;
    size_t offset;
};

struct scoreboard *qemu_plugin_scoreboard_new(size_t bytes);
void qemu_plugin_register_vcpu_tb_exec_inline_per_vcpu(struct block *block, int operation,
                                                       struct entry entry, uint64_t number);
void qemu_plugin_register_vcpu_tb_trans_cb(uint64_t id, void (*callback)(uint64_t, struct block *));

int qemu_plugin_version = 4;

static struct entry blocks;

static void translated(uint64_t id, struct block *block) {
    (void)id;
    qemu_plugin_register_vcpu_tb_exec_inline_per_vcpu(block, 0, blocks, 1);
}

int qemu_plugin_install(uint64_t id, const void *information, int count, char **arguments) {
    (void)information, (void)count, (void)arguments;
    blocks.scoreboard = qemu_plugin_scoreboard_new(sizeof(uint64_t));
    qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
    return 0;
}
