// Reading a request's JSON object: each read leaves its default where the field is absent or null, and
// adds to the Problem where it has the wrong type or is out of range. Reading goes on after an error, so
// that the code is one line a field; the first error is what the client sees.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "api/errors.h"
#include "base/json_fwd.h"

namespace rose {

class Fields {
 public:
  // `path` names the object itself: "" or "messages[2].". `object` must be one and outlive this.
  Fields(const Json& object, std::string path, Problem& problem)
      : object_(object), path_(std::move(path)), problem_(problem) {}

  const Json* find(const char* name) const;  // null: absent or null
  bool has(const char* name) const { return find(name) != nullptr; }

  void read(const char* name, bool& into);
  void read(const char* name, std::string& into);
  void read(const char* name, float& into, double low, double high);
  void read(const char* name, int& into, int64_t low, int64_t high);
  void read(const char* name, std::optional<uint64_t>& into);  // any whole number of 64 bits

  // An object within: `path` of its fields is "name.". Null where absent.
  const Json* object(const char* name);
  const Json* array(const char* name);

  void wrong(const std::string& name, const std::string& what, const std::string& code = {});
  const std::string& path() const { return path_; }
  Problem& problem() { return problem_; }

 private:
  const Json& object_;
  std::string path_;
  Problem& problem_;
};

// "a string", "a number", … for messages.
std::string kind_of(const Json& value);

}  // namespace rose
