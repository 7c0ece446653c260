// Finds names (of special tokens) in text.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rose {

class NameTrie {
 public:
  struct Found {
    size_t begin, size;  // in the text
    int id;
  };

  bool add(std::string_view name, int id);  // false where the name is known already
  // The earliest name in the text, the longest of those that begin there.
  std::optional<Found> find(std::string_view text) const;
  std::optional<int> id(std::string_view name) const;

 private:
  struct Node {
    int id = -1;              // of the name that ends here
    std::string bytes;        // that may follow
    std::vector<int> follow;  // the node behind each
  };
  int step(int node, char byte) const;  // -1: nothing follows so

  std::vector<Node> nodes_ = std::vector<Node>(1);
};

}  // namespace rose
