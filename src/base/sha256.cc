#include "base/sha256.h"

#include <openssl/evp.h>
#include <openssl/rand.h>

#include "base/check.h"

namespace rose {

std::string sha256_hex(std::string_view bytes) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned size = 0;
  ROSE_CHECK(EVP_Digest(bytes.data(), bytes.size(), digest, &size, EVP_sha256(), nullptr) == 1,
             "sha256: OpenSSL has none");
  std::string hex;
  for (unsigned i = 0; i < size; ++i) hex += strf("%02x", digest[i]);
  return hex;
}

std::string random_bytes(size_t count) {
  std::string bytes(count, '\0');
  ROSE_CHECK(RAND_bytes(reinterpret_cast<unsigned char*>(bytes.data()), int(count)) == 1,
             "random bytes: OpenSSL has none");
  return bytes;
}

}  // namespace rose
