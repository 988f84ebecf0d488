/* From QEMU's multiboot loader to 64-bit code at the addresses of a kernel.

   Physical memory from 0 is mapped at 0 and at BASE, and devices from 3 GiB on at their addresses. */
#include "guest.h"

    .section .head, "ax"
    .code32
    .balign 4
header:
    .long 0x1BADB002, 0x00010000, -(0x1BADB002 + 0x00010000)
    .long header - BASE, header - BASE, image_end - BASE, image_end - BASE, entry - BASE

    .globl entry
entry:
    cli
    cld
    mov $0x1000, %edi
    xor %eax, %eax
    mov $0x1000, %ecx
    rep stosl
    /* One table of 1 GiB entries serves the lowest and the highest 512 GiB. */
    movl $0x2003, 0x1000
    movl $0x2003, 0x1000 + 511 * 8
    movl $0x3003, 0x2000
    movl $0x4003, 0x2000 + 3 * 8
    movl $0x3003, 0x2000 + 510 * 8
    mov $0x3000, %edi
    mov $0x83, %eax
1:  mov %eax, (%edi)
    add $0x200000, %eax
    add $8, %edi
    cmp $0x4000, %edi
    jne 1b
    mov $0xC0000083, %eax
2:  mov %eax, (%edi)
    add $0x200000, %eax
    add $8, %edi
    cmp $0x5000, %edi
    jne 2b
    jmp paging
    /* Another processor begins here, with the descriptors of `segments`. */
    .globl paging_of_another
paging_of_another:
    mov $16, %eax
    mov %eax, %ds
paging:
    mov $0x1000, %eax
    mov %eax, %cr3
    mov %cr4, %eax
    or $0x20, %eax
    mov %eax, %cr4
    mov $0xC0000080, %ecx
    rdmsr
    or $0x100, %eax
    wrmsr
    mov %cr0, %eax
    or $0x80000001, %eax
    mov %eax, %cr0
    lgdt descriptor - BASE
    ljmp $8, $(long_mode - BASE)

    .code64
long_mode:
    mov $high, %rax
    jmp *%rax
high:
    lgdt descriptor_high(%rip)
    mov $16, %eax
    mov %eax, %ss
    mov %eax, %ds
    mov %eax, %es
    mov stack(%rip), %rsp
    jmp *start(%rip)

    .balign 8
    .globl stack, start, segments
    /* The stack of the next processor that gets here, and the address at which it goes on. */
stack:
    .quad STACK
start:
    .quad main
    /* Code of 64 bits, data, and code of 32 bits. */
segments:
    .quad 0, 0x00af9a000000ffff, 0x00cf92000000ffff, 0x00cf9a000000ffff
descriptor:
    .word 31
    .long segments - BASE
descriptor_high:
    .word 31
    .quad segments
