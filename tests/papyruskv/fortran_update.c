/* Registered by a Fortran program through C: update function number 2. */
#include <papyrus/kv.h>
#include <string.h>

int register_append(int db);

/* Appends the argument to the value; returns the earlier value, as far as there is room for it. */
static int append(const char* key, size_t keylen, char** val, size_t* vallen, void* userin,
                  size_t userinlen, void* userout, size_t useroutlen) {
  (void)key, (void)keylen;
  memcpy(userout, *val, *vallen < useroutlen ? *vallen : useroutlen);
  memcpy(*val + *vallen, userin, userinlen);
  *vallen += userinlen;
  return 1;
}

int register_append(int db) {
  return papyruskv_register_update(db, 2, append);
}
