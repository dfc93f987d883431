#include "kv/database/context.h"

#include <utility>
#include <vector>

#include "base/forked_child.h"
#include "base/out_of_memory.h"
#include "kv/database/database_open.h"
#include "kv/database/together.h"
#include "kv/persistence/restart.h"
#include "runtime/agreement.h"
#include "runtime/job.h"

namespace quire::kv {
namespace {

class ContextImpl final : public Context {
 public:
  explicit ContextImpl(std::shared_ptr<runtime::Core> core) : core_(std::move(core)) {}

  ~ContextImpl() override {
    if (process_.forked()) {
      base::LeaveInChild(core_);
    } else {
      core_->End();
    }
  }

  int rank() const override { return core_->rank(); }
  int size() const override { return core_->size(); }
  Result<std::shared_ptr<runtime::Core>> core() const {
    QUIRE_RETURN_IF_ERROR(Check());
    return core_;
  }
  const std::string& repository() const override { return core_->repository; }
  std::string Description() const override { return core_->description; }

  Result<std::unique_ptr<Database>> Open(const std::string& name,
                                         const DatabaseOptions& options) override {
    QUIRE_RETURN_IF_ERROR(Check());
    return OpenDatabase(core_, name, options);
  }
  Status Destroy(const std::string& name) override {
    QUIRE_RETURN_IF_ERROR(Check());
    QUIRE_ASSIGN_OR_RETURN(const std::unique_ptr<Event> destroyed, BeginDestruction(name));
    return WaitTogether(*this, *destroyed);
  }
  Result<std::unique_ptr<Event>> DestroyAsync(const std::string& name) override {
    QUIRE_RETURN_IF_ERROR(Check());
    return BeginDestruction(name);
  }
  Result<std::unique_ptr<Event>> Restart(const std::string& path, const std::string& name,
                                         const RestartOptions& options) override {
    QUIRE_RETURN_IF_ERROR(Check());
    const uint32_t number = core_->TakeNumber();
    return runtime::Together(*core_->exchange,
                             [&] { return StartRestart(core_, number, path, name, options); });
  }

  Result<std::vector<std::string>> ListDatabases() override {
    QUIRE_RETURN_IF_ERROR(Check());
    return runtime::Together(*core_->exchange, [&] { return kv::ListDatabases(*core_); });
  }
  Status Agree(const Status& mine) override {
    QUIRE_RETURN_IF_ERROR(Check());
    return runtime::Together(*core_->exchange, [&] { return core_->exchange->Agree(mine); });
  }
  Status Barrier() override {
    QUIRE_RETURN_IF_ERROR(Check());
    return runtime::Together(*core_->exchange, [&] { return core_->exchange->Barrier(); });
  }
  Status Notify(int signal, const std::vector<int>& ranks) override {
    QUIRE_RETURN_IF_ERROR(CheckRanks(ranks));
    return core_->exchange->Notify(signal, ranks);
  }
  Status WaitSignal(int signal, const std::vector<int>& ranks) override {
    QUIRE_RETURN_IF_ERROR(CheckRanks(ranks));
    return core_->exchange->WaitSignal(signal, ranks);
  }
  void Progress() override {
    if (process_.MayCall()) core_->Progress();
  }

 private:
  Result<std::unique_ptr<Event>> BeginDestruction(const std::string& name) {
    const uint32_t number = core_->TakeNumber();
    return runtime::Together(*core_->exchange,
                             [&] { return StartDestruction(core_, number, name); });
  }
  Status Check() const { return process_.Check("the context"); }
  Status CheckRanks(const std::vector<int>& ranks) const {
    QUIRE_RETURN_IF_ERROR(Check());
    for (const int rank : ranks) {
      if (rank >= 0 && rank < size()) continue;
      return Status(Code::kInvalidArgument, "there is no rank " + std::to_string(rank) +
                                                "; there are 0 to " + std::to_string(size() - 1));
    }
    return Status();
  }

  const base::OwnProcess process_;
  std::shared_ptr<runtime::Core> core_;
};

}  // namespace

Result<std::shared_ptr<runtime::Core>> CoreOf(Context& context) {
  return static_cast<ContextImpl&>(context).core();
}

Status WaitTogether(Context& context, Event& event) {
  QUIRE_ASSIGN_OR_RETURN(const std::shared_ptr<runtime::Core> core, CoreOf(context));
  const Status ended = runtime::EndOf([&] { return event.Wait(); });
  return runtime::AgreeOnOutcome(*core->exchange, ended);
}

Result<std::unique_ptr<Context>> NewContext(const runtime::Environment& environment,
                                            std::unique_ptr<comm::Transport> transport,
                                            Slice repository, const ContextOptions& options) {
  QUIRE_ASSIGN_OR_RETURN(std::shared_ptr<runtime::Core> core,
                         runtime::NewCore(environment, std::move(transport), repository, options));
  std::unique_ptr<ContextImpl> context;
  const Status made = core->exchange->Agree(base::OrOutOfMemory([&] {
    context = std::make_unique<ContextImpl>(core);
    return Status();
  }));
  if (made.ok()) return std::unique_ptr<Context>(std::move(context));
  if (context == nullptr) core->End();  // else its destructor does
  return made;
}

}  // namespace quire::kv
