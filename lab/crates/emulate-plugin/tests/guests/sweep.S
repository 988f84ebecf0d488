/* Loops over memory: 4096 lines twice, and a chain of pointers through 1000 lines twice. */
#include "guest.h"

#define LINES 4096
#define NODES 1000
#define CHAIN (MEMORY + 0x1000000)

    .text
    .globl main, tcp_ack, ip_output, __dev_queue_xmit, do_syscall_64
main:
    /* Node i points to node i + 7 modulo 1000: one cycle, because 7 and 1000 have no common divisor. */
    xor %ecx, %ecx
    mov $CHAIN, %rdi
1:  lea 7(%rcx), %eax
    cmp $NODES, %eax
    jb 2f
    sub $NODES, %eax
2:  mov %eax, %edx
    shl $6, %rdx
    add %rdi, %rdx
    mov %ecx, %ebx
    shl $6, %rbx
    mov %rdx, (%rdi, %rbx)
    mov %eax, %ecx
    test %ecx, %ecx
    jnz 1b
    WATCH
    mov $.Lfirst, %r8
    mov $MEMORY, %rdi
    mov $LINES, %ecx
    jmp tcp_ack
.Lfirst:
    mov $.Lsecond, %r8
    mov $MEMORY, %rdi
    mov $LINES, %ecx
    jmp ip_output
.Lsecond:
    mov $.Lthird, %r8
    mov $CHAIN, %rdi
    mov $NODES, %ecx
    jmp __dev_queue_xmit
.Lthird:
    mov $.Lfourth, %r8
    mov $NODES, %ecx
    jmp do_syscall_64
.Lfourth:
    END

    .balign 64
tcp_ack:
1:  mov (%rdi), %rax
    add $64, %rdi
    dec %ecx
    jnz 1b
    jmp *%r8

    .balign 64
ip_output:
1:  mov (%rdi), %rax
    add $64, %rdi
    dec %ecx
    jnz 1b
    jmp *%r8

    .balign 64
__dev_queue_xmit:
1:  mov (%rdi), %rdi
    dec %ecx
    jnz 1b
    jmp *%r8

    .balign 64
do_syscall_64:
1:  mov (%rdi), %rdi
    dec %ecx
    jnz 1b
    jmp *%r8
