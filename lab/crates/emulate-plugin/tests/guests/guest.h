/* Addresses of the guests, their requests and their end. */
#define BASE 0xffffffff80000000
#define REQUESTS 0xffffffff80200000
#define STACK 0xffffffff80300000
#define SECOND_STACK 0xffffffff80400000
#define MEMORY 0xffffffff82000000

#define LOOK_UP_CARD 6
#define ATTACH 7
#define START 1
#define STOP 2

#ifdef __ASSEMBLER__
    /* An interrupt of that vector enters the handler; %rdi is the address of the table. */
    .macro GATE vector, handler
    mov $\handler, %rax
    mov %ax, 16 * \vector(%rdi)
    movw $8, 16 * \vector + 2(%rdi)
    movw $0x8e00, 16 * \vector + 4(%rdi)
    shr $16, %rax
    mov %ax, 16 * \vector + 6(%rdi)
    shr $16, %rax
    mov %eax, 16 * \vector + 8(%rdi)
    .endm

    .macro REQUEST operation
    mov $REQUESTS, %rsi
    movl $\operation, (%rsi)
    movl $0, 4(%rsi)
    .byte 0x0f, 0x1f, 0x80, 0x45, 0x4d, 0x55, 0x31
    mov (%rsi), %eax
    .endm

    /* The plugin watches after some thousand instructions. */
    .macro WATCH
    REQUEST ATTACH
    mov $200000, %ecx
99: dec %ecx
    jnz 99b
    REQUEST START
    .endm

    .macro END
    REQUEST STOP
    mov $0, %al
    out %al, $0xf4
98: hlt
    jmp 98b
    .endm
#endif
