/* Blocks that the processor leaves before their end, ROUNDS times: at an access to a device's register, for which
   QEMU runs the instruction in a block of its own, and at page faults. */
#include "guest.h"

#define ROUNDS 64
#define TABLE 0xffffffff80210000
#define LOCAL_APIC 0xfee00000
#define VERSION 0x30
#define SPURIOUS 0xf0
/* boot.S maps nothing there. */
#define UNMAPPED 0x40000000

    .macro FUNCTION name
    .balign 64, 0x90
    .globl \name
\name:
    .endm

    .macro NOPS number
    .rept \number
    nop
    .endr
    .endm

    .text
    .globl main
main:
    mov $TABLE, %rdi
    GATE 14, asm_exc_page_fault
    lidt table(%rip)
    mov $LOCAL_APIC, %r14d
    WATCH
    mov $ROUNDS, %r13d
1:  call do_syscall_64
    dec %r13d
    jnz 1b
    END

    FUNCTION do_syscall_64
    NOPS 3
    call tcp_ack
    call ip_output
    nop
    ret

    /* A register is loaded, loaded and stored, and stored. The pushes and pops repeat each other's lines. */
    FUNCTION tcp_ack
    push %rbx
    push %rbp
    mov VERSION(%r14), %eax
    NOPS 2
    push %r12
    orl $0x100, SPURIOUS(%r14)
    NOPS 5
    pop %r12
    mov VERSION(%r14), %eax
    pop %rbp
    pop %rbx
    call a_helper
    nop
    ret

    /* No rule lists this name: it is work of its caller. */
    FUNCTION a_helper
    NOPS 4
    mov VERSION(%r14), %eax
    NOPS 6
    ret

    /* Faults in the middle of a block, at the first instruction of a block, and in a block that jumps to itself. */
    FUNCTION ip_output
    NOPS 2
    push %rbx
    push %rbp
    mov $UNMAPPED, %edi
    mov (%rdi), %rax
    push %r12
    NOPS 7
    pop %r12
    mov $UNMAPPED, %edi
    jmp 2f
2:  mov (%rdi), %rax
    NOPS 3
    pop %rbp
    pop %rbx
    mov $3, %ecx
    jmp 3f
3:  nop
    cmp $2, %ecx
    mov $UNMAPPED, %eax
    cmove %rax, %rdi
    mov (%rdi), %rax
    nop
    dec %ecx
    jnz 3b
    call __dev_queue_xmit
    ret

    FUNCTION __dev_queue_xmit
    NOPS 5
    ret

    /* It makes the address valid, and drops the error code. Its first instruction stores, so that the plugin finds
       the frame even if each block has one instruction. */
    FUNCTION asm_exc_page_fault
    call another_helper
    mov $MEMORY, %rdi
    add $8, %rsp
    iretq

    FUNCTION another_helper
    NOPS 11
    ret

table:
    .word 0x0fff
    .quad TABLE
