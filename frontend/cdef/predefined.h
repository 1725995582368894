/* Function-like macros of the system's headers (Linux UAPI). */
#define KERNEL_VERSION(a, b, c) (((a) << 16) + ((b) << 8) + ((c) > 255 ? 255 : (c)))
#define NULL 0
#ifdef __x86_64__
#define PAGE_SHIFT 12
#define PAGE_SIZE 4096
#endif
#define _BITUL(x) (1UL << (x))
#define _BITULL(x) (1ULL << (x))

/* asm-generic/ioctl.h */
#define _IOC(dir, type, nr, size) (((dir) << 30) | ((type) << 8) | (nr) | ((size) << 16))
#define _IO(type, nr) _IOC(0U, (type), (nr), 0)
#define _IOW(type, nr, t) _IOC(1U, (type), (nr), sizeof(t))
#define _IOR(type, nr, t) _IOC(2U, (type), (nr), sizeof(t))
#define _IOWR(type, nr, t) _IOC(3U, (type), (nr), sizeof(t))
#define _IOC_DIR(nr) (((nr) >> 30) & 3)
#define _IOC_TYPE(nr) (((nr) >> 8) & 255)
#define _IOC_NR(nr) ((nr) & 255)
#define _IOC_SIZE(nr) (((nr) >> 16) & 16383)

/* linux/stat.h */
#define S_ISLNK(m) (((m) & 0170000) == 0120000)
#define S_ISREG(m) (((m) & 0170000) == 0100000)
#define S_ISDIR(m) (((m) & 0170000) == 0040000)
#define S_ISCHR(m) (((m) & 0170000) == 0020000)
#define S_ISBLK(m) (((m) & 0170000) == 0060000)
#define S_ISFIFO(m) (((m) & 0170000) == 0010000)
#define S_ISSOCK(m) (((m) & 0170000) == 0140000)
