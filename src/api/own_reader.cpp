#include "api/own_reader.h"

#include <string>
#include <utility>
#include <vector>

#include "base/core/out_of_memory.h"
#include "base/threads/forked_child.h"

namespace quire::api {
namespace {

class OwnView final : public StreamView {
 public:
  explicit OwnView(std::unique_ptr<StreamView> view) : view_(std::move(view)) {}
  ~OwnView() override {
    if (process_.forked()) base::LeaveInChild(view_);
  }
  OwnView(const OwnView&) = delete;
  OwnView& operator=(const OwnView&) = delete;

  Slice bytes() const override { return view_->bytes(); }
  const StreamVersion& version() const override { return view_->version(); }
  bool in_place() const override { return view_->in_place(); }
  Status Verify() const override {
    QUIRE_RETURN_IF_ERROR(process_.Check("the view"));
    return view_->Verify();
  }

 private:
  const base::OwnProcess process_;
  std::unique_ptr<StreamView> view_;
};

Result<std::unique_ptr<StreamView>> OwnViewOf(Result<std::unique_ptr<StreamView>> view) {
  if (!view.ok()) return view;
  return base::OrOutOfMemory([&]() -> Result<std::unique_ptr<StreamView>> {
    return std::unique_ptr<StreamView>(std::make_unique<OwnView>(std::move(*view)));
  });
}

class OwnReader final : public StreamReader {
 public:
  explicit OwnReader(std::unique_ptr<StreamReader> reader) : reader_(std::move(reader)) {}
  ~OwnReader() override {
    if (process_.forked()) base::LeaveInChild(reader_);
  }
  OwnReader(const OwnReader&) = delete;
  OwnReader& operator=(const OwnReader&) = delete;

  Result<std::vector<std::string>> Objects() override {
    QUIRE_RETURN_IF_ERROR(Check());
    return reader_->Objects();
  }
  Result<std::vector<StreamVersion>> Versions(Slice key) override {
    QUIRE_RETURN_IF_ERROR(Check());
    return reader_->Versions(key);
  }
  Result<uint64_t> LastSnapshot() override {
    QUIRE_RETURN_IF_ERROR(Check());
    return reader_->LastSnapshot();
  }
  Status Get(Slice key, uint64_t version, const BufferAllocator& allocate) override {
    QUIRE_RETURN_IF_ERROR(Check());
    return reader_->Get(key, version, allocate);
  }
  Status GetAt(Slice key, uint64_t snapshot, const BufferAllocator& allocate) override {
    QUIRE_RETURN_IF_ERROR(Check());
    return reader_->GetAt(key, snapshot, allocate);
  }
  Result<std::unique_ptr<StreamView>> View(Slice key, uint64_t version) override {
    QUIRE_RETURN_IF_ERROR(Check());
    return OwnViewOf(reader_->View(key, version));
  }
  Result<std::unique_ptr<StreamView>> ViewAt(Slice key, uint64_t snapshot) override {
    QUIRE_RETURN_IF_ERROR(Check());
    return OwnViewOf(reader_->ViewAt(key, snapshot));
  }
  Result<uint64_t> Wait(uint64_t after, uint64_t timeout_ms) override {
    QUIRE_RETURN_IF_ERROR(Check());
    return reader_->Wait(after, timeout_ms);
  }
  Result<bool> Finished() override {
    QUIRE_RETURN_IF_ERROR(Check());
    return reader_->Finished();
  }

 private:
  Status Check() const { return process_.Check("the stream reader"); }

  const base::OwnProcess process_;
  std::unique_ptr<StreamReader> reader_;
};

}  // namespace

Result<std::unique_ptr<StreamReader>> NewOwnReader(std::unique_ptr<StreamReader> reader) {
  return base::OrOutOfMemory([&]() -> Result<std::unique_ptr<StreamReader>> {
    return std::unique_ptr<StreamReader>(std::make_unique<OwnReader>(std::move(reader)));
  });
}

}  // namespace quire::api
