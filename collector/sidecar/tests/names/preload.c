// Preloaded into a program: the name backend.test has the address in the file $NAME_SERVICE.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef int resolver(const char *, const char *, const struct addrinfo *, struct addrinfo **);

int getaddrinfo(const char *node, const char *service, const struct addrinfo *hints, struct addrinfo **found) {
    resolver *next = (resolver *)dlsym(RTLD_NEXT, "getaddrinfo");
    const char *path = getenv("NAME_SERVICE");
    char address[64] = {0};
    if (node != NULL && path != NULL && strcmp(node, "backend.test") == 0) {
        int file = open(path, O_RDONLY | O_CLOEXEC);
        if (file < 0 || read(file, address, sizeof address - 1) <= 0) {
            return EAI_NONAME;
        }
        close(file);
        node = address;
    }
    return next(node, service, hints, found);
}
