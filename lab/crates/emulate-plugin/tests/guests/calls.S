/* Calls of known layers, five deep, with an interrupt in the deepest, ROUNDS times. With SECOND, another
   processor makes the same calls all the while. The first two numbers of the guest are those of its rounds
   before and after the window. The third is the number of its traps that returned to a wrong address.

   QEMU 10.0 translates a trap with the constant 1, which is the length of the instruction. If a plugin has
   an inline operation in a block of processor 1, QEMU computes the operation's address in the constant 1
   itself (gen_cpu_index and gen_plugin_u64_ptr in accel/tcg/plugin-gen.c), so the rest of the block has
   another number in its place. */
#include "guest.h"

/* The self-test of the package has this guest, with SECOND. */
#define ROUNDS 64
#define TABLE 0xffffffff80210000
#define LOCAL_APIC 0xfee00000
#define SECOND_ROUNDS 0xffffffff80009000
#define WRONG_RETURNS 0xffffffff80009008

    .macro FUNCTION name
    .balign 64, 0x90
    .globl \name
\name:
    .endm

    .text
    .globl main
main:
    mov $TABLE, %rdi
    GATE 32, asm_sysvec_test
    GATE 3, trap
    lidt table(%rip)
#ifdef SECOND
    /* The second processor begins at 0x8000 in 16-bit code. */
    movq $SECOND_STACK, stack(%rip)
    movq $second, start(%rip)
    mov $trampoline, %rsi
    mov $0x8000, %edi
    mov $(trampoline_end - trampoline), %ecx
    rep movsb
    mov $LOCAL_APIC, %edi
    movl $0x01000000, 0x310(%rdi)
    movl $0x4500, 0x300(%rdi)
    movl $0x01000000, 0x310(%rdi)
    movl $0x4608, 0x300(%rdi)
1:  cmpl $100, SECOND_ROUNDS
    jb 1b
#endif
    WATCH
    mov SECOND_ROUNDS, %r12d
    mov $ROUNDS, %r13d
2:  call do_syscall_64
    dec %r13d
    jnz 2b
    mov SECOND_ROUNDS, %r14d
    mov $REQUESTS, %rsi
    mov %r12, 8(%rsi)
    mov %r14, 16(%rsi)
    mov WRONG_RETURNS, %r15d
    mov %r15, 24(%rsi)
    END

second:
    lidt table(%rip)
3:  incl SECOND_ROUNDS
    int3
    jmp 4f
    .rept 64
    nop
    .endr
    incl WRONG_RETURNS
4:  call do_syscall_64
    jmp 3b

trap:
    iretq

    FUNCTION do_syscall_64
    .rept 10
    nop
    .endr
    call sock_sendmsg
    nop
    ret

    FUNCTION sock_sendmsg
    .rept 20
    nop
    .endr
    call tcp_sendmsg
    nop
    ret

    FUNCTION tcp_sendmsg
    .rept 30
    nop
    .endr
    call a_helper
    nop
    ret

    /* No rule lists this name: it is work of its caller. */
    FUNCTION a_helper
    .rept 5
    nop
    .endr
    int $32
    .rept 5
    nop
    .endr
    call _copy_from_iter
    call ip_output
    nop
    ret

    FUNCTION _copy_from_iter
    .rept 7
    nop
    .endr
    ret

    FUNCTION ip_output
    .rept 40
    nop
    .endr
    call __dev_queue_xmit
    nop
    ret

    FUNCTION __dev_queue_xmit
    .rept 50
    nop
    .endr
    ret

    FUNCTION asm_sysvec_test
    push $-1
    .rept 3
    nop
    .endr
    call another_helper
    add $8, %rsp
    iretq

    FUNCTION another_helper
    .rept 11
    nop
    .endr
    ret

table:
    .word 0x0fff
    .quad TABLE

    .code16
trampoline:
    cli
    xor %ax, %ax
    mov %ax, %ds
    lgdtl 0x8000 + trampoline_descriptor - trampoline
    mov %cr0, %eax
    or $1, %al
    mov %eax, %cr0
    ljmpl $24, $(paging_of_another - BASE)
trampoline_descriptor:
    .word 31
    .long segments - BASE
trampoline_end:
