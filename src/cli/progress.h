// One line on stderr that shows how far long work is: redrawn in place on a terminal, elsewhere
// written once at the end of each phase.
#pragma once
#include <string>

#include "base/clock.h"
#include "model/loader.h"

namespace rose {

class StatusLine {
 public:
  StatusLine();
  void draw(const std::string& text);    // on a terminal only, at most 20 times a second
  void commit(const std::string& text);  // the last word of a phase: stays

 private:
  bool terminal_;
  Time drawn_{};
};

// Loading: "weights   8.2 of 12.9 GB  63 %  2.4 GB/s", then "weights   12.9 GB in 5.4 s (2.4 GB/s)"; what
// is counted: "steps   17 of 72", then "steps   72 in 0.9 s".
class ProgressLine {
 public:
  void show(const LoadProgress& progress);
  void finish();

 private:
  void end_phase();

  StatusLine line_;
  LoadProgress last_ = {};
};

// Counting: "answers   17 of 200".
class CountLine {
 public:
  CountLine(std::string what, int total);
  void show(int done);
  void finish();
  double seconds() const;  // since it was made, up to finish()

 private:
  StatusLine line_;
  std::string what_;
  int total_;
  Time start_;
  double seconds_ = -1;
};

}  // namespace rose
