/* Calls of known layers, five deep, with an interrupt in the deepest, ROUNDS times. With SECOND, another
   processor makes the same calls all the while. The first two numbers of the guest are those of its rounds
   before and after the window. */
#include "guest.h"

/* The self-test of the package has this guest, with SECOND. */
#define ROUNDS 64
#define TABLE 0xffffffff80210000
#define LOCAL_APIC 0xfee00000
#define SECOND_ROUNDS 0xffffffff80009000

    .macro FUNCTION name
    .balign 64, 0x90
    .globl \name
\name:
    .endm

    .text
    .globl main
main:
    /* Vector 32 enters asm_sysvec_test. */
    mov $TABLE, %rdi
    mov $asm_sysvec_test, %rax
    mov %ax, 512(%rdi)
    movw $8, 514(%rdi)
    movw $0x8e00, 516(%rdi)
    shr $16, %rax
    mov %ax, 518(%rdi)
    shr $16, %rax
    mov %eax, 520(%rdi)
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
    END

second:
    lidt table(%rip)
3:  incl SECOND_ROUNDS
    call do_syscall_64
    jmp 3b

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
