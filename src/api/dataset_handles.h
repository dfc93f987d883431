/// The C interface's handles of datasets that several files need.
///
/// Layer      api
/// Threads    as the C interface
#pragma once

#include <memory>

#include "base/threads/forked_child.h"
#include "quire/dataset.h"
#include "quire/quire_dataset.h"

struct quire_dataset_writer {
  static constexpr const char* kName = "writer";
  std::unique_ptr<quire::DatasetWriter> object;
  quire::base::OwnProcess process = {};
};

struct quire_dataset_reader {
  static constexpr const char* kName = "reader";
  std::unique_ptr<quire::DatasetReader> object;
  quire::base::OwnProcess process = {};
};
