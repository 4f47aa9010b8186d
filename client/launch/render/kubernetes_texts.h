// The run specs for Kubernetes, as texts for fill.h.
#ifndef ROLLCALL_CLIENT_LAUNCH_RENDER_KUBERNETES_TEXTS_H_
#define ROLLCALL_CLIENT_LAUNCH_RENDER_KUBERNETES_TEXTS_H_

namespace rollcall {

inline constexpr char kKubernetesText[] =
    R"spec(# One rollcall job as an Indexed Job of @NODES@ pods.
#
#   kubectl create secret generic @SECRET@ \
#     --from-literal=secret="$(rollcall token secret)"
#   kubectl apply -f job.yaml
#
# Change: the image, the command, the number of nodes (completions, parallelism
# and --nodes) and what a pod asks for. The image needs `rollcall` in PATH.
apiVersion: v1
kind: Service
metadata:
  name: @JOB_TEXT@
spec:
  clusterIP: None
  # Names and readiness would wait for each other.
  publishNotReadyAddresses: true
  selector:
    job-name: @JOB_TEXT@
  ports:
    - name: rollcall
      port: 29400
---
apiVersion: batch/v1
kind: Job
metadata:
  name: @JOB_TEXT@
spec:
  completionMode: Indexed
  completions: @NODES@
  parallelism: @NODES@
  # A failure ends every pod: three more tries.
  backoffLimit: @BACKOFF@
  podFailurePolicy:
    rules:
      # Stopped for a requeue (an eviction, SIGTERM, too few nodes left): all pods
      # end with 75, and new ones continue the work.
      - action: Ignore
        onExitCodes:
          operator: In
          values: [75]
      # A pod that was moved is no failure of the program.
      - action: Ignore
        onPodConditions:
          - type: DisruptionTarget
            status: "True"
      # Wrong usage, and a wrong secret: another try would fail as well.
      - action: FailJob
        onExitCodes:
          operator: In
          values: [2, 77]
  template:
    spec:
      # The pods' names: @JOB@-0.@JOB@ and so on. Pod 0 launches.
      subdomain: @JOB_TEXT@
      restartPolicy: Never
      containers:
        - name: train
          image: @IMAGE_TEXT@
          command:
            @COMMAND@
          env:
            - name: ROLLCALL_SECRET
              valueFrom:
                secretKeyRef:
                  name: @SECRET_TEXT@
                  key: secret
          ports:
            - containerPort: 29400
          @RESOURCES@
          volumeMounts:
            - name: shm
              mountPath: /dev/shm
      volumes:
        - name: shm
          emptyDir:
            medium: Memory
)spec";

inline constexpr char kJobSetText[] =
    R"spec(# One rollcall job as a JobSet of @NODES@ pods, which JobSet names and publishes.
#
#   kubectl create secret generic @SECRET@ \
#     --from-literal=secret="$(rollcall token secret)"
#   kubectl apply -f jobset.yaml
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata:
  name: @JOB_TEXT@
spec:
  network:
    enableDNSHostnames: true
    publishNotReadyAddresses: true
  failurePolicy:
    maxRestarts: 3
    rules:
      # Wrong usage, and a wrong secret: another try would fail as well.
      - name: usage
        action: FailJobSet
        onJobFailureReasons:
          - PodFailurePolicy
  replicatedJobs:
    - name: node
      replicas: 1
      template:
        spec:
          completionMode: Indexed
          completions: @NODES@
          parallelism: @NODES@
          backoffLimit: 0
          podFailurePolicy:
            rules:
              # Stopped for a requeue (an eviction, SIGTERM, too few nodes left):
              # all pods end with 75, and new ones continue the work.
              - action: Ignore
                onExitCodes:
                  operator: In
                  values: [75]
              # A pod that was moved is no failure of the program.
              - action: Ignore
                onPodConditions:
                  - type: DisruptionTarget
                    status: "True"
              - action: FailJob
                onExitCodes:
                  operator: In
                  values: [2, 77]
          template:
            spec:
              restartPolicy: Never
              containers:
                - name: train
                  image: @IMAGE_TEXT@
                  command:
                    @COMMAND@
                  env:
                    - name: ROLLCALL_SECRET
                      valueFrom:
                        secretKeyRef:
                          name: @SECRET_TEXT@
                          key: secret
                    # Together they are ROLLCALL_ATTEMPT of a rank.
                    - name: JOBSET_RESTART_ATTEMPT
                      valueFrom:
                        fieldRef:
                          fieldPath: metadata.labels['jobset.sigs.k8s.io/restart-attempt']
                    - name: JOBSET_IN_PLACE_RESTART_ATTEMPT
                      valueFrom:
                        fieldRef:
                          fieldPath: metadata.annotations['jobset.sigs.k8s.io/in-place-restart-attempt']
                  @RESOURCES@
                  volumeMounts:
                    - name: shm
                      mountPath: /dev/shm
              volumes:
                - name: shm
                  emptyDir:
                    medium: Memory
)spec";

inline constexpr char kLeaderWorkerSetText[] =
    R"spec(# One rollcall job as a LeaderWorkerSet: a leader, which launches, and
# @WORKERS@ workers. The set tells each pod its index, the size and the leader's address.
# Its pods are always started again, also after they exit 0: delete the set when the job
# is done (`kubectl delete -f leaderworkerset.yaml`), or use a JobSet, which ends.
#
#   kubectl create secret generic @SECRET@ \
#     --from-literal=secret="$(rollcall token secret)"
#   kubectl apply -f leaderworkerset.yaml
apiVersion: leaderworkerset.x-k8s.io/v1
kind: LeaderWorkerSet
metadata:
  name: @JOB_TEXT@
spec:
  replicas: 1
  leaderWorkerTemplate:
    size: @NODES@
    # A pod that comes back joins the running job again.
    restartPolicy: None
    workerTemplate:
      spec:
        containers:
          - name: train
            image: @IMAGE_TEXT@
            command:
              @COMMAND@
            env:
              - name: ROLLCALL_SECRET
                valueFrom:
                  secretKeyRef:
                    name: @SECRET_TEXT@
                    key: secret
            @RESOURCES@
            volumeMounts:
              - name: shm
                mountPath: /dev/shm
        volumes:
          - name: shm
            emptyDir:
              medium: Memory
)spec";

inline constexpr char kTrainJobText[] =
    R"spec(# One rollcall job as a TrainJob of Kubeflow Trainer v2, on its runtime for
# torch, which tells each pod its rank, the number of nodes and the address of
# the first.
#
#   kubectl create secret generic @SECRET@ \
#     --from-literal=secret="$(rollcall token secret)"
#   kubectl apply -f trainjob.yaml
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata:
  name: @JOB_TEXT@
spec:
  runtimeRef:
    name: torch-distributed
  trainer:
    numNodes: @NODES@
    image: @IMAGE_TEXT@
    command:
      @COMMAND@
    env:
      - name: ROLLCALL_SECRET
        valueFrom:
          secretKeyRef:
            name: @SECRET_TEXT@
            key: secret
      # Of the JobSet that Kubeflow makes: ROLLCALL_ATTEMPT of a rank.
      - name: JOBSET_RESTART_ATTEMPT
        valueFrom:
          fieldRef:
            fieldPath: metadata.labels['jobset.sigs.k8s.io/restart-attempt']
    @RESOURCES_PER_NODE@
)spec";

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_LAUNCH_RENDER_KUBERNETES_TEXTS_H_
